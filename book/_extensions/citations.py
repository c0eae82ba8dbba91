"""A bibliography whose entries are labelled as the text cites them: authors and year.

``:style: author_year`` asks for it. Works of one author and year carry a letter in the
``year`` of the bibliography file, which the text then shows as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from types import SimpleNamespace

from pybtex import plugin
from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx
from sphinxcontrib.bibtex.style.referencing import PersonStyle


class AuthorYearLabels(BaseLabelStyle):
    """The names as the references of this style shorten them, and the year."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        """The labels of the entries, in their order."""
        person = PersonStyle()
        names = person.author_or_editor_or_title(full=False)
        for entry in sorted_entries:
            data = {"entry": entry, "style": SimpleNamespace(person=person)}
            yield f"{names.format_data(data).render_as('text')}, {entry.fields['year']}"


class AuthorYearStyle(Style):
    """Plain entries, sorted by author, with these labels."""

    default_label_style = AuthorYearLabels


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the style."""
    # For each citation, pybtex looks through all installed packages for its plugins.
    plugin._load_entry_point = cache(plugin._load_entry_point)
    register_plugin("pybtex.style.formatting", "author_year", AuthorYearStyle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
