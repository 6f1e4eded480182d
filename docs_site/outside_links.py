"""How do pages that are written for GitHub become pages of the site?

Two things differ. A link of GitHub may lead to any file of the repository; the site has the pages of docs/ alone, so a
link to anything else becomes the address of that file in the repository. The file must be there: a dead link is a
warning, which a strict build refuses. Words behind a fence's language (`from=NAME`, `run`) are for tests/docs, and go;
`hl_lines`, which marks lines, stays.

Not handled: reference links (`[text][name]`), which no page uses; anchors in files outside docs/.
Checked by: tests/docs/test_site.py.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_log = logging.getLogger("mkdocs.hooks.outside_links")
_FENCED = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^\n`]*)\n.*?^(?P=indent)(?P=ticks)[ \t]*$", re.M | re.S)
_LINK = re.compile(r"(?P<head>\]\()(?P<target>(?!https?://|mailto:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?(?P<tail>\))")


def on_page_markdown(markdown: str, /, *, page: Any, config: Any, files: Any) -> str:
    """The page's text as the site shows it; called by mkdocs for each page."""

    def known(path: Path) -> bool:
        inside = path.relative_to(config["docs_dir"]) if path.is_relative_to(config["docs_dir"]) else None
        found = files.get_file_from_path(inside.as_posix()) if inside is not None else None
        return found is not None and found.inclusion.is_included()

    text, missing = for_site(
        markdown, Path(page.file.abs_src_path or config["docs_dir"]), repository=config["repo_url"], on_site=known
    )
    for target in missing:
        _log.warning("%s links to %s, which is not in the repository", page.file.src_uri, target)
    return text


def for_site(markdown: str, source: Path, *, repository: str, on_site: Any) -> tuple[str, list[str]]:
    """A page's text for the site, and the targets that lead nowhere. source: the page's file; on_site: is this file a
    part of the site?"""
    missing: list[str] = []

    def link(match: re.Match[str]) -> str:
        target = (source.parent / match["target"]).resolve()
        if on_site(target):
            return match[0]
        if not target.exists() or not target.is_relative_to(ROOT):
            missing.append(match["target"])
            return match[0]
        kind = "tree" if target.is_dir() else "blob"
        address = f"{repository.rstrip('/')}/{kind}/main/{target.relative_to(ROOT).as_posix()}"
        return f"{match['head']}{address}{match['anchor'] or ''}{match['tail']}"

    pieces: list[str] = []
    position = 0
    for block in _FENCED.finditer(markdown):
        pieces.append(_LINK.sub(link, markdown[position : block.start()]))
        language, _, words = block["info"].strip().partition(" ")
        kept = f" {words}" if words.startswith("hl_lines") else ""
        pieces.append(block[0].replace(block["ticks"] + block["info"], block["ticks"] + language + kept, 1))
        position = block.end()
    pieces.append(_LINK.sub(link, markdown[position:]))
    return "".join(pieces), missing
