"""`tilewright explain CODE`: a rule in words, its source, an example that breaks it and what mends it."""

from __future__ import annotations

import argparse
import json

from tilewright.base.error import TilewrightError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", help="a finding's code, such as TX001; without it, all codes are listed")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to report (default: text)")


def run(arguments: argparse.Namespace) -> int:
    from tilewright.driver.rules import all_rules, explain

    if arguments.code is None:
        rules = all_rules()
        if arguments.format == "json":
            print(json.dumps([{"code": rule.code, "name": rule.name, "summary": rule.summary} for rule in rules], indent=2))
        else:
            for rule in rules:
                print(f"{rule.code}  {rule.name}: {rule.summary}")
        return 0
    rule = explain(arguments.code)
    if rule is None:
        from difflib import get_close_matches

        near = get_close_matches(arguments.code.upper(), [item.code for item in all_rules()], n=1)
        remedy = f"did you mean {near[0]}?" if near else "`tilewright explain` lists them"
        raise TilewrightError(f"there is no rule {arguments.code}", remedy=remedy)
    if arguments.format == "json":
        from dataclasses import asdict

        print(json.dumps(asdict(rule), indent=2))
        return 0
    print(f"{rule.code} {rule.name}\n\n{rule.summary[0].upper()}{rule.summary[1:]}.\n")
    for title, text in (("Rule", rule.rule), ("Source", rule.source), ("Example", rule.example), ("Remedy", rule.remedy)):
        if text:
            print(f"{title}: {text}")
    return 0
