"""Decisions about programs of products, folds and products of them."""
