"""How a file is to be read: one frozen record of options, checked when it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from thalweg.brief import brief_repr
from thalweg.checks import no_option, one_of, refuse, require_flag
from thalweg.errors import BuildError
from thalweg.flow.records import Schema
from thalweg.time_texts import EpochUnit, Nanoseconds

Format = Literal["csv", "json", "text", "parquet"]

#: The options that are texts in a row; any sequence of them will do.
_WORDS: Final = ("null_values", "true_values", "false_values", "timestamp_formats")

_ONLY: Final = {
    "delimiter": ("csv",),
    "header": ("csv",),
    "quote": ("csv",),
    "null_values": ("csv",),
    "true_values": ("csv",),
    "false_values": ("csv",),
    "timestamp_formats": ("csv", "json"),
    "epoch_unit": ("csv", "json", "parquet"),
    "nanoseconds": ("csv", "json", "parquet"),
    "growing": ("csv", "json", "text"),
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
    #: What becomes of a time that is finer than a microsecond: the row does not fit, or the time is cut to the
    #: microsecond at or before it.
    nanoseconds: Nanoseconds = "reject"
    #: Whether files may be written to at their end while they are read: then of each the whole lines that it held when
    #: it was opened are read, and a line without an end does not fit. If not, a file that grows is an error.
    growing: bool = False
    #: Whether fields are taken from folders such as ``day=2024-01-01`` on a file's path.
    partitions: bool = False
    line_field: str = "line"
    path_field: str = "path"
    number_field: str = "number"

    def __post_init__(self) -> None:
        if self.format not in get_args(Format):
            raise BuildError(f"format is one of {', '.join(get_args(Format))}, not {self.format!r}")
        for name in _WORDS:
            object.__setattr__(self, name, _words(name, getattr(self, name)))
        for field in dataclasses.fields(self):
            value, formats = getattr(self, field.name), _ONLY.get(field.name)
            if formats and self.format not in formats and value != field.default:
                raise BuildError(
                    f"{field.name} is an option of {' and '.join(formats)}, not of {self.format}"
                )
        self._check_csv()
        self._check_times()
        for name in ("header", "growing", "partitions"):
            if not isinstance(getattr(self, name), bool):
                raise BuildError(f"{name} is True or False, not {getattr(self, name)!r}")
        for name in ("line_field", "path_field", "number_field"):
            if not isinstance(getattr(self, name), str):
                raise BuildError(f"{name} is the name of a field, not {getattr(self, name)!r}")

    def of_source(self, record: Schema) -> ReadOptions:
        """These options, with what a source says of times where they say nothing."""
        told = record.reading
        if self.epoch_unit or self.timestamp_formats or self.format == "text":
            return self
        formats = () if self.format == "parquet" else told.timestamp_formats
        if not told.epoch_unit and not formats:
            return self
        return dataclasses.replace(self, epoch_unit=told.epoch_unit, timestamp_formats=formats)

    def _check_times(self) -> None:
        if self.epoch_unit is not None and self.epoch_unit not in get_args(EpochUnit):
            raise BuildError(
                f"epoch_unit is 's', 'ms', 'us', 'ns' or None, not {self.epoch_unit!r}"
            )
        if self.epoch_unit and self.timestamp_formats:
            raise BuildError("give epoch_unit or timestamp_formats, not both")
        if self.nanoseconds not in get_args(Nanoseconds):
            raise BuildError(f"nanoseconds is 'reject' or 'truncate', not {self.nanoseconds!r}")

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
            raise BuildError(f"{sorted(both)} are in both true_values and false_values")


def _words(name: str, value: Any) -> tuple[str, ...]:
    one_text = isinstance(value, (str, bytes))
    if one_text or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
        raise BuildError(f"{name} is a sequence of texts, for example ['NA'], not {value!r}")
    return tuple(value)


#: What there is beside the format.
OPTIONS: Final = frozenset(one.name for one in dataclasses.fields(ReadOptions)) - {"format"}


def read_options(
    verb: str,
    format: Format,
    given: Mapping[str, Any],
    own: Sequence[str] = (),
    taken: Collection[str] = OPTIONS,
) -> ReadOptions:
    """The options that a verb was given as keywords, beside its ``own``, which it takes itself.

    Args:
        verb: for messages.
        format: of what is read.
        given: the keywords.
        own: names of others that the verb has.
        taken: the options that make sense there.

    Raises:
        BuildError: there is no such option, or the format does not have it.
    """
    for unknown in given:
        if unknown not in taken:
            raise no_option(verb, unknown, sorted({*taken, *own}))
    format = one_of(verb, "format", format, get_args(Format))
    if "header" in given:
        require_flag(verb, header=given["header"])
    for name in ("true_values", "false_values"):
        if not isinstance(given.get(name, ()), Sequence) or isinstance(given.get(name), str):
            raise refuse(verb, name, "a tuple of texts", given[name])
    return ReadOptions(format=format, **given)
