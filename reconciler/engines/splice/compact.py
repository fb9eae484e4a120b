"""Thrift's compact protocol as a generic tree, so that what this module does not know survives a round trip.

Generated Thrift classes (Apache Thrift's, thriftpy2's) skip the fields their definition does not name; a footer written
by a newer writer would lose them. So Apache Thrift does the wire format, and the tree above it is generic: field id →
(wire type, value). `decode` accepts only bytes that `encode` returns unchanged: nothing can be lost on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType

from reconciler.errors import InvalidTable

MAX_DEPTH = 32
_BAD_BYTES = (TException, EOFError, KeyError, AssertionError, struct.error, ValueError, OverflowError)


class BadFooter(InvalidTable):
    """The file's metadata is damaged, hostile, or not in the canonical form."""

    reason = "BadFooter"


@dataclass(slots=True)
class Items:
    """A list or set of values of one wire type."""

    type: int
    values: list[Value]


@dataclass(slots=True)
class Struct:
    """A struct: field id → (wire type, value), in the order of the wire."""

    fields: dict[int, tuple[int, Value]] = field(default_factory=dict)

    def __contains__(self, field_id: int) -> bool:
        """Whether the field is there."""
        return field_id in self.fields

    def integer(self, field_id: int, default: int | None = None) -> int:
        """Return an integer field, or the default where it is absent."""
        value = self._value(field_id, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise _unexpected(field_id, "a number")

    def binary(self, field_id: int, default: bytes | None = None) -> bytes:
        """Return a binary field, or the default where it is absent."""
        value = self._value(field_id, default)
        if isinstance(value, bytes):
            return value
        raise _unexpected(field_id, "binary")

    def struct(self, field_id: int) -> Struct:
        """Return a struct field."""
        value = self._value(field_id, None)
        if isinstance(value, Struct):
            return value
        raise _unexpected(field_id, "a struct")

    def items(self, field_id: int) -> Items:
        """Return a list field."""
        value = self._value(field_id, None)
        if isinstance(value, Items):
            return value
        raise _unexpected(field_id, "a list")

    def structs(self, field_id: int) -> list[Struct]:
        """Return a list of structs; none where the field is absent."""
        if field_id not in self.fields:
            return []
        found = [value for value in self.items(field_id).values if isinstance(value, Struct)]
        if len(found) != len(self.items(field_id).values):
            raise _unexpected(field_id, "a list of structs")
        return found

    def set(self, field_id: int, value: Value) -> None:
        """Replace the value of a field that is there."""
        self.fields[field_id] = (self.fields[field_id][0], value)

    def add(self, field_id: int, amount: int) -> None:
        """Add to a number when it is there."""
        if field_id in self.fields:
            self.set(field_id, self.integer(field_id) + amount)

    def _value(self, field_id: int, default: Value | None) -> Value | None:
        found = self.fields.get(field_id)
        return default if found is None else found[1]


Value = bool | int | float | bytes | UUID | Struct | Items


def _unexpected(field_id: int, wanted: str) -> BadFooter:
    return BadFooter(f"Field {field_id} of the Parquet footer is not {wanted}.")


def decode(data: bytes) -> Struct:
    """Read one struct that takes all of `data`; raises BadFooter unless `encode` gives back the very same bytes."""
    source = _Source(data)
    try:
        found = _Reader(source).struct(0)
        same = source.at == len(data) and encode(found) == data
    except BadFooter:
        raise
    except _BAD_BYTES as error:
        raise BadFooter("The Parquet footer is damaged.") from error
    if not same:
        raise BadFooter("The Parquet footer is not in Thrift's canonical form: rewriting it could lose something.")
    return found


def encode(value: Struct) -> bytes:
    """Write one struct."""
    sink = _Sink()
    _Writer(sink).struct(value)
    return bytes(sink.data)


class _Source:
    """Bytes as the transport Thrift reads from; its own transports copy twice."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def readAll(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise EOFError
        found = self.data[self.at : end]
        self.at = end
        return found


class _Sink:
    """Bytes as the transport Thrift writes to."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data


class _Reader:
    def __init__(self, source: _Source) -> None:
        # Every value takes a byte or more, so the footer's own size bounds each length it states.
        limit = len(source.data)
        self._protocol = protocol = TCompactProtocol(source, string_length_limit=limit, container_length_limit=limit)
        self._scalars: dict[int, Callable[[], Value]] = {
            TType.BOOL: protocol.readBool,
            TType.BYTE: protocol.readByte,
            TType.I16: protocol.readI16,
            TType.I32: protocol.readI32,
            TType.I64: protocol.readI64,
            TType.DOUBLE: protocol.readDouble,
            TType.STRING: protocol.readBinary,
            TType.UUID: protocol.readUuid,
        }

    def struct(self, depth: int) -> Struct:
        if depth > MAX_DEPTH:
            raise BadFooter("The Parquet footer is nested too deeply.")
        protocol, found = self._protocol, Struct()
        protocol.readStructBegin()
        while True:
            _, type_, field_id = protocol.readFieldBegin()
            if type_ == TType.STOP:
                break
            found.fields[field_id] = (type_, self.value(type_, depth + 1))
            protocol.readFieldEnd()
        protocol.readStructEnd()
        return found

    def value(self, type_: int, depth: int) -> Value:
        if scalar := self._scalars.get(type_):
            return scalar()
        if type_ == TType.STRUCT:
            return self.struct(depth)
        if type_ in {TType.LIST, TType.SET} and depth <= MAX_DEPTH:
            of, size = self._protocol.readListBegin()
            values = [self.value(of, depth + 1) for _ in range(size)]
            self._protocol.readListEnd()
            return Items(of, values)
        raise BadFooter("The Parquet footer holds a kind of value that no Parquet footer has.")


class _Writer:
    def __init__(self, sink: _Sink) -> None:
        self._protocol = protocol = TCompactProtocol(sink)
        self._scalars: dict[int, Callable[[Value], None]] = {
            TType.BOOL: protocol.writeBool,
            TType.BYTE: protocol.writeByte,
            TType.I16: protocol.writeI16,
            TType.I32: protocol.writeI32,
            TType.I64: protocol.writeI64,
            TType.DOUBLE: protocol.writeDouble,
            TType.STRING: protocol.writeBinary,
            TType.UUID: protocol.writeUuid,
        }

    def struct(self, value: Struct) -> None:
        protocol = self._protocol
        protocol.writeStructBegin(None)
        for field_id, (type_, inner) in value.fields.items():
            protocol.writeFieldBegin(None, type_, field_id)
            self.value(type_, inner)
            protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()

    def value(self, type_: int, value: Value) -> None:
        if isinstance(value, Struct):
            self.struct(value)
        elif isinstance(value, Items):
            self._protocol.writeListBegin(value.type, len(value.values))
            for item in value.values:
                self.value(value.type, item)
            self._protocol.writeListEnd()
        else:
            self._scalars[type_](value)
