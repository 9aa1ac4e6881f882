"""mkdocs hooks: pages from files at the root of the repository, and a check for remote files.

The files at the root are generated, or serve readers of the repository too. The site takes them as they are, so that
nobody copies them by hand. Links between them and the pages of docs/ work on the site and in the repository alike.
"""

import logging
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]

INCLUDED = {
    "operators.md": "OPERATORS.md",
    "accuracy-tables.md": "ACCURACY.md",
    "devices/reference.md": "DEVICES.md",
    "devices/tutorial.md": "examples/device/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Path of a page below docs/ → the file that it shows."""

PAGES = {source: page for page, source in INCLUDED.items()}

LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
REMOTE = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")

LOG = logging.getLogger("mkdocs.hooks.qmlir")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that show files at the root."""
    for page, source in INCLUDED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=linked(text, source, page)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files at the root into links to their pages."""
    path = page.file.src_uri
    if path in INCLUDED:
        return markdown
    return linked(markdown, f"docs/{path}", path)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Warns, which `make docs` makes an error, if a page loads anything from elsewhere."""
    for tag in REMOTE.findall(output):
        LOG.warning("%s loads something from the network: %s", page.file.src_uri, tag)
    return output


def linked(text: str, source: str, page: str) -> str:
    """Returns the text of a file with its relative links turned into links between pages.

    Args:
        text: Markdown.
        source: The path of the file in the repository.
        page: The path below docs/ at which the site shows it.
    """

    def link(found: re.Match[str]) -> str:
        target = normpath(join(dirname(source), found[2]))
        shown = PAGES.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if shown is None:  # a file of the repository that is no page: its name is enough
            return found[1]
        return f"[{found[1]}]({relpath(shown, dirname(page) or '.')}{found[3] or ''})"

    return LINK.sub(link, text)
