"""Building schemas, each property once (Java's SchemaBuilder).

SchemaBuilder.struct().name("com.example.Order").field("id", INT64_SCHEMA).build()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import errors, schema, structs


class SchemaBuilder:
    """Every method but `build` returns the builder; SchemaBuilderError for what Java refuses."""

    def __init__(self, of: schema.Type) -> None:
        self._type = of
        self._optional: bool | None = None
        self._default: Any = None
        self._name: str | None = None
        self._version: int | None = None
        self._doc: str | None = None
        self._parameters: dict[str, str] | None = None
        self._fields: dict[str, schema.Field] = {}
        self._keys: schema.Schema | None = None
        self._elements: schema.Schema | None = None

    # One for each type

    @classmethod
    def int8(cls) -> SchemaBuilder:
        return cls(schema.Type.INT8)

    @classmethod
    def int16(cls) -> SchemaBuilder:
        return cls(schema.Type.INT16)

    @classmethod
    def int32(cls) -> SchemaBuilder:
        return cls(schema.Type.INT32)

    @classmethod
    def int64(cls) -> SchemaBuilder:
        return cls(schema.Type.INT64)

    @classmethod
    def float32(cls) -> SchemaBuilder:
        return cls(schema.Type.FLOAT32)

    @classmethod
    def float64(cls) -> SchemaBuilder:
        return cls(schema.Type.FLOAT64)

    @classmethod
    def boolean(cls) -> SchemaBuilder:
        return cls(schema.Type.BOOLEAN)

    @classmethod
    def string(cls) -> SchemaBuilder:
        return cls(schema.Type.STRING)

    @classmethod
    def bytes(cls) -> SchemaBuilder:
        return cls(schema.Type.BYTES)

    @classmethod
    def struct(cls) -> SchemaBuilder:
        return cls(schema.Type.STRUCT)

    @classmethod
    def array(cls, elements: schema.Schema | SchemaBuilder) -> SchemaBuilder:
        builder = cls(schema.Type.ARRAY)
        builder._elements = _built(elements, "value schema of an array")
        return builder

    @classmethod
    def map(
        cls, keys: schema.Schema | SchemaBuilder, values: schema.Schema | SchemaBuilder
    ) -> SchemaBuilder:
        builder = cls(schema.Type.MAP)
        builder._keys = _built(keys, "key schema of a map")
        builder._elements = _built(values, "value schema of a map")
        return builder

    # Properties

    def optional(self) -> SchemaBuilder:
        _check_can_set("optional", self._optional, new=True)
        self._optional = True
        return self

    def required(self) -> SchemaBuilder:
        """The default; said, it cannot be unsaid."""
        _check_can_set("optional", self._optional, new=False)
        self._optional = False
        return self

    def default(self, value: Any) -> SchemaBuilder:
        """What a null value means; it must fit what was said so far, so call it last."""
        _check_can_set("default", self._default, new=value)
        try:
            structs.validate_value(self.build(), value)
        except errors.DataError as error:
            raise errors.SchemaBuilderError(f"Invalid default value: {error}") from error
        self._default = value
        return self

    def name(self, name: str) -> SchemaBuilder:
        _check_can_set("name", self._name, new=name)
        self._name = name
        return self

    def version(self, version: int) -> SchemaBuilder:
        _check_can_set("version", self._version, new=version)
        self._version = version
        return self

    def doc(self, doc: str) -> SchemaBuilder:
        _check_can_set("doc", self._doc, new=doc)
        self._doc = doc
        return self

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Parameters may be said again; the last word counts."""
        return self.parameters({name: value})

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        if parameters:
            self._parameters = {**(self._parameters or {}), **parameters}
        return self

    def field(self, name: str, described: schema.Schema | SchemaBuilder) -> SchemaBuilder:
        """The next field of a struct."""
        if self._type is not schema.Type.STRUCT:
            raise errors.SchemaBuilderError(f"Cannot create fields on type {self._type}")
        if not name:
            raise errors.SchemaBuilderError("A field must have a name.")
        built = _built(described, f"schema for field {name}")
        if name in self._fields:
            raise errors.SchemaBuilderError(
                f"Cannot create field because of field name duplication {name}"
            )
        self._fields[name] = schema.Field(name, len(self._fields), built)
        return self

    def build(self) -> schema.Schema:
        return schema.Schema(
            type=self._type,
            optional=bool(self._optional),
            default=self._default,
            name=self._name,
            version=self._version,
            doc=self._doc,
            parameters=self._parameters and dict(self._parameters),
            struct_fields=tuple(self._fields.values()) or None,
            keys=self._keys,
            elements=self._elements,
        )


def _built(described: schema.Schema | SchemaBuilder | None, what: str) -> schema.Schema:
    if described is None:
        raise errors.SchemaBuilderError(f"{what} cannot be null.")
    return described.build() if isinstance(described, SchemaBuilder) else described


def _check_can_set(name: str, now: object, *, new: object) -> None:
    if now is not None and now != new:
        raise errors.SchemaBuilderError(f"Invalid SchemaBuilder call: {name} has already been set.")
