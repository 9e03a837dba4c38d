"""The JavaScript of pages: plain modules in the folders `static`, one per view, without a build.

Each view has anywidget's shape: `export default { render({ model, el, signal }) }`. Modules import
each other by name: `attlas/dom.js` is `static/dom.js` of `attlas.views`, `PACKAGE/x.js` that of
another package. A page carries those that it needs in an import map of data: URLs, so that it is
one file that opens without a network; for a notebook they are joined to one module.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from markupsafe import Markup

from attlas.views.page import inline_json

PACKAGE = "attlas.views"
IMPORT = re.compile(r'^import \{ ([^}]*) \} from "([^"]+)";\n', re.MULTILINE)
MOUNT = "attlas/mount.js"
WIDGET = "attlas/widget.js"
BASE = "attlas/base.css"  # the rules of all views
LOOK = "attlas/look.css"  # the places of the views of one text
SCOPE = "attlas-widget"


@dataclass(frozen=True)
class View:
    """What draws a part of a page: `static/NAME.js` of a package, and `static/NAME.css` if any.

    `has_words` is whether its data hold words of texts, which a notebook does not store.
    """

    name: str
    package: str = PACKAGE
    has_words: bool = field(default=True, compare=False)

    @property
    def module(self) -> str:
        """What the module is imported as."""
        return f"{'attlas' if self.package == PACKAGE else self.package}/{self.name}.js"

    @property
    def css(self) -> str:
        """The rules that its elements need, and those of the modules that it imports."""
        return styles([self.module])

    def html(
        self,
        number: int,
        content: str = "",
        kind: str = "",
        tag: str = "div",
        options: Mapping[str, str] | None = None,
    ) -> str:
        """The element in which it is drawn, with the number of its data.

        `options` are further `data-` attributes: `of` names the module whose data it takes.
        """
        classes = f' class="{kind}"' if kind else ""
        more = "".join(f' data-{key}="{escape(one)}"' for key, one in (options or {}).items())
        return (
            f'<{tag}{classes} dir="auto" data-view="{self.module}"{more} '
            f'data-number="{number}">{content}</{tag}>'
        )


@cache
def source(module: str) -> str:
    """The code of a module."""
    return resource(module).read_text(encoding="utf-8")


def resource(name: str) -> Traversable:
    """A file of `static` by the name of its package: `attlas/text.css`."""
    package, _, name = name.rpartition("/")
    return files(PACKAGE if package == "attlas" else package) / "static" / name


def styles(modules: Iterable[str], sheets: Iterable[str] = ()) -> str:
    """The rules of modules and of all that they import: `static/NAME.css`, if there is one.

    Those of all views come first, those of further sheets last.
    """
    own = (one.removesuffix(".js") + ".css" for one in with_imports(modules))
    paths = map(resource, (BASE, *own, *sheets))
    return "\n".join(one.read_text(encoding="utf-8") for one in paths if one.is_file())


def with_imports(modules: Iterable[str]) -> list[str]:
    """These modules and all that they import, each after those that it imports."""
    out: list[str] = []
    for module in modules:
        imported = [name for _, name in IMPORT.findall(source(module))]
        out += [one for one in [*with_imports(imported), module] if one not in out]
    return out


def import_map(modules: Iterable[str]) -> Markup:
    """The modules inside a page, by name, with all that they import."""
    urls = {
        one: "data:text/javascript;base64," + base64.b64encode(source(one).encode()).decode()
        for one in with_imports(modules)
    }
    return inline_json({"imports": urls})


def page_scripts(
    data: Mapping[View, list[Any]],
    chosen: Mapping[str, Any] | None = None,
    modules: Iterable[str] = (),
    sheets: Iterable[str] = (),
) -> dict[str, Markup]:
    """What a page needs to draw its views: for the template `views.html`.

    `chosen` are values that views share at first, such as the head; `modules` and `sheets` are
    others that the page needs.
    """
    by_module = {one.module: items for one, items in data.items()}
    return {
        "import_map": import_map([MOUNT, *sorted(by_module), *modules]),
        "view_data": inline_json(by_module),
        "view_values": inline_json(dict(chosen or {})),
        "view_css": Markup(styles(sorted(by_module), sheets)),
    }


def joined(*views: View) -> str:
    """Views and all that they import as one module, which is what a notebook takes.

    Each module becomes a function that returns what it exports.
    """
    modules = [one.module for one in views]
    parts = ["const modules = {};"]
    for module in with_imports([*modules, WIDGET]):
        body = IMPORT.sub(r'const { \1 } = modules["\2"];\n', source(module))
        names = re.findall(r"^export (?:async )?(?:const|function|class) (\w+)", body, re.MULTILINE)
        body = re.sub(r"^export default ", "const view = ", body, flags=re.MULTILINE)
        default = ["view"] if re.search(r"^const view = ", body, re.MULTILINE) else []
        body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
        exported = ", ".join([*names, *default])
        parts.append(f'modules["{module}"] = (() => {{\n{body}return {{ {exported} }};\n}})();')
    known = ", ".join(f'"{one}": modules["{one}"].view' for one in dict.fromkeys(modules))
    return "\n".join([*parts, f'export default modules["{WIDGET}"].widgetOf({{ {known} }});', ""])


def scoped_styles(views: Iterable[View], sheets: Iterable[str] = ()) -> str:
    """The rules of views in a notebook: inside one class, so that nothing else changes there."""
    rules = styles([*(one.module for one in views), WIDGET], sheets)
    return f".{SCOPE} {{\n{rules}\n}}"
