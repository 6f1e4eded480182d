"""The page docs/bugs/README.md, made from docs/bugs/index.toml: `python -m tests.docs.bug_index` writes it anew."""

from __future__ import annotations

import tomllib
from typing import Any

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "bugs"

_SUBJECTS = {
    "TX": "Transaction bytes", "MB": "mbarriers", "PX": "Proxies", "WG": "wgmma", "TC": "Tensor memory and tcgen05",
    "BG": "Bulk groups and stores", "NB": "Barriers of threads", "CL": "Clusters", "SR": "Registers", "AL": "Alignment",
    "TM": "Tensor maps and copies", "GD": "Dependent grids",
}  # fmt: skip
"""Headings, by the first of a pair's families."""

_HEAD = """\
# Bugs in pairs

{count} ways in which asynchronous kernels go wrong, each as two small kernels that are alike but for the bug:
`buggy.ptx`, with `// here` at the mistake, and `fixed.ptx`. `tests/bugs` holds that the buggy one is refuted beside
that mark, by a rule of one of the families given, and that the fixed one is proven.

```sh
tilewright check docs/bugs/store-without-a-proxy-fence/buggy.ptx
tilewright check docs/bugs/store-without-a-proxy-fence/buggy.ptx --diff
tilewright check docs/bugs/store-without-a-proxy-fence/fixed.ptx
```

A pair with a `launch.json` is about that launch. Pairs marked *strict* are about points on which
interpretations of the ISA differ: `--isa strict` refutes them, the tolerant one reports them for review.
[The rules](../rules/index.md) have a page for each code and each such point.

This page is made from `index.toml` by `python -m tests.docs.bug_index`.
"""


def page() -> str:
    """The page as Markdown, pairs by subject, in the order of the index."""
    pairs: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "index.toml").read_text("utf-8"))
    lines = [_HEAD.format(count=len(pairs))]
    for family, subject in _SUBJECTS.items():
        own = {name: pair for name, pair in pairs.items() if pair["families"][0] == family}
        if not own:
            continue
        lines += [f"## {subject}", "", "| what goes wrong | kernels | families |", "| --- | --- | --- |"]
        lines += [*(_row(name, pair) for name, pair in own.items()), ""]
    return "\n".join(lines)


def _row(name: str, pair: dict[str, Any]) -> str:
    kernels = [f"[{kind}]({name}/{kind}.ptx)" for kind in ("buggy", "fixed")]
    if (FOLDER / name / "launch.json").exists():
        kernels.append(f"[launch]({name}/launch.json)")
    strict = " (*strict*)" if pair.get("isa") == "strict" else ""
    return f"| {pair['title']}{strict} | {', '.join(kernels)} | {', '.join(pair['families'])} |"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page(), encoding="utf-8")
