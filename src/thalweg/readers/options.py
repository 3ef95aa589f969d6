"""How a file is to be read: one frozen record of options, checked when it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from thalweg.brief import brief_repr
from thalweg.checks import meant, refuse, require_flag
from thalweg.errors import BuildError

Format = Literal["csv", "json", "text", "parquet"]
EpochUnit = Literal["s", "ms", "us"]

#: What an epoch integer is multiplied by to become microseconds.
EPOCH_FACTOR: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}

_ONLY: Final = {
    "delimiter": ("csv",),
    "header": ("csv",),
    "quote": ("csv",),
    "null_values": ("csv",),
    "true_values": ("csv",),
    "false_values": ("csv",),
    "timestamp_formats": ("csv", "json"),
    "epoch_unit": ("csv", "json", "parquet"),
    "line_field": ("text",),
    "path_field": ("text",),
    "number_field": ("text",),
}


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How files of one source are read; an option that the format does not have is refused.

    Example::

        >>> ReadOptions(format="csv", null_values=("NA",)).null_values
        ('NA',)

    Raises:
        BuildError: a value is not one of those that the option takes.
    """

    format: Format
    #: One ASCII character between the cells.
    delimiter: str = ","
    #: Whether the first row names the columns; if not, they stand in the order of the record.
    header: bool = True
    #: One ASCII character around cells that hold delimiters or line ends; None if there is none.
    quote: str | None = '"'
    #: Cells that mean null, in Optional fields only.
    null_values: tuple[str, ...] = ("",)
    true_values: tuple[str, ...] = ("true", "True", "TRUE", "1")
    false_values: tuple[str, ...] = ("false", "False", "FALSE", "0")
    #: ``datetime.strptime`` patterns tried in order in place of ISO 8601.
    timestamp_formats: tuple[str, ...] = ()
    #: The unit of Timestamps that are integers; None: they are text (in Parquet: microseconds).
    epoch_unit: EpochUnit | None = None
    line_field: str = "line"
    path_field: str = "path"
    number_field: str = "number"

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise BuildError(f"format is one of {', '.join(get_args(Format))}, not {self.format!r}")
        for field in dataclasses.fields(self):
            value, formats = getattr(self, field.name), _ONLY.get(field.name)
            if formats and self.format not in formats and value != field.default:
                raise BuildError(
                    f"{field.name} is an option of {' and '.join(formats)}, not of {self.format}"
                )
        self._check_csv()
        for name in ("null_values", "true_values", "false_values", "timestamp_formats"):
            _check_words(name, getattr(self, name))
        if self.epoch_unit not in (None, *EPOCH_FACTOR):
            raise BuildError(f"epoch_unit is 's', 'ms', 'us' or None, not {self.epoch_unit!r}")
        if self.epoch_unit and self.timestamp_formats:
            raise BuildError("give epoch_unit or timestamp_formats, not both")

    def _check_csv(self) -> None:
        for name, char in (("delimiter", self.delimiter), ("quote", self.quote)):
            if name == "quote" and char is None:
                continue
            if not isinstance(char, str) or len(char) != 1 or not char.isascii():
                raise BuildError(f"{name} is one ASCII character, not {char!r}")
            if char in "\r\n\0":
                raise BuildError(f"{name} cannot be {char!r}")
        if self.delimiter == self.quote:
            raise BuildError(f"delimiter and quote are both {self.quote!r}")
        both = set(self.true_values) & set(self.false_values)
        if both:
            raise BuildError(f"{sorted(both)} stand in true_values and in false_values")


def _check_words(name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(one, str) for one in value):
        raise BuildError(f"{name} is a tuple of str, for example ('NA',), not {value!r}")


def read_options(verb: str, format: Format, given: Mapping[str, Any]) -> ReadOptions:
    """The options that a verb was given as keywords.

    Raises:
        BuildError: there is no such option, or the format does not have it.
    """
    known = {field.name for field in dataclasses.fields(ReadOptions)}
    for unknown in sorted(given.keys() - known):
        raise BuildError(
            f"{verb}: there is no option {unknown!r}; there are {', '.join(sorted(known - {'format'}))}"
            f"{meant(unknown, known)}"
        )
    if "header" in given:
        require_flag(verb, header=given["header"])
    for name in ("true_values", "false_values"):
        if not isinstance(given.get(name, ()), Sequence) or isinstance(given.get(name), str):
            raise refuse(verb, name, "a tuple of texts", given[name])
    return ReadOptions(format=format, **given)
