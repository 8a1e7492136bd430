"""SchemaBuilder: builds schemas; each property can be set only once.

SchemaBuilder.struct().name("com.example.Order").field("id", INT64_SCHEMA).build()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import structs
from connect_runtime.api.errors import DataError, SchemaBuilderError
from connect_runtime.api.schema import Field, Schema, SchemaType


class SchemaBuilder:
    """Builds a Schema. Every method except `build` returns the builder.

    Raises SchemaBuilderError where Java raises SchemaBuilderException.
    """

    def __init__(self, of: SchemaType) -> None:
        self._type = of
        self._optional: bool | None = None
        self._default: Any = None
        self._name: str | None = None
        self._version: int | None = None
        self._doc: str | None = None
        self._parameters: dict[str, str] | None = None
        self._fields: dict[str, Field] = {}
        self._keys: Schema | None = None
        self._elements: Schema | None = None

    # Constructors, one per type

    @classmethod
    def int8(cls) -> SchemaBuilder:
        return cls(SchemaType.INT8)

    @classmethod
    def int16(cls) -> SchemaBuilder:
        return cls(SchemaType.INT16)

    @classmethod
    def int32(cls) -> SchemaBuilder:
        return cls(SchemaType.INT32)

    @classmethod
    def int64(cls) -> SchemaBuilder:
        return cls(SchemaType.INT64)

    @classmethod
    def float32(cls) -> SchemaBuilder:
        return cls(SchemaType.FLOAT32)

    @classmethod
    def float64(cls) -> SchemaBuilder:
        return cls(SchemaType.FLOAT64)

    @classmethod
    def boolean(cls) -> SchemaBuilder:
        return cls(SchemaType.BOOLEAN)

    @classmethod
    def string(cls) -> SchemaBuilder:
        return cls(SchemaType.STRING)

    @classmethod
    def bytes(cls) -> SchemaBuilder:
        return cls(SchemaType.BYTES)

    @classmethod
    def struct(cls) -> SchemaBuilder:
        return cls(SchemaType.STRUCT)

    @classmethod
    def array(cls, elements: Schema | SchemaBuilder) -> SchemaBuilder:
        builder = cls(SchemaType.ARRAY)
        builder._elements = _build_schema(elements, "value schema of an array")
        return builder

    @classmethod
    def map(cls, keys: Schema | SchemaBuilder, values: Schema | SchemaBuilder) -> SchemaBuilder:
        builder = cls(SchemaType.MAP)
        builder._keys = _build_schema(keys, "key schema of a map")
        builder._elements = _build_schema(values, "value schema of a map")
        return builder

    # Properties

    def optional(self) -> SchemaBuilder:
        _check_can_set("optional", self._optional, new=True)
        self._optional = True
        return self

    def required(self) -> SchemaBuilder:
        """Make the schema required, which is the default. A later call to `optional` raises an
        error."""
        _check_can_set("optional", self._optional, new=False)
        self._optional = False
        return self

    def default(self, value: Any) -> SchemaBuilder:
        """Set the default value, which replaces null.

        Call this method last, because the value is validated against the properties that are
        already set.
        """
        _check_can_set("default", self._default, new=value)
        try:
            structs.validate_value(self.build(), value)
        except DataError as error:
            raise SchemaBuilderError(f"Invalid default value: {error}") from error
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
        """Set a parameter of the schema. Unlike other properties, a parameter may be set again."""
        return self.parameters({name: value})

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        if parameters:
            self._parameters = {**(self._parameters or {}), **parameters}
        return self

    def field(self, name: str, described: Schema | SchemaBuilder) -> SchemaBuilder:
        """Append a field to a struct schema."""
        if self._type is not SchemaType.STRUCT:
            raise SchemaBuilderError(f"Cannot create fields on type {self._type}")
        if not name:
            raise SchemaBuilderError("A field must have a name.")
        built = _build_schema(described, f"schema for field {name}")
        if name in self._fields:
            raise SchemaBuilderError(
                f"Cannot create field because of field name duplication {name}"
            )
        self._fields[name] = Field(name, len(self._fields), built)
        return self

    def build(self) -> Schema:
        return Schema(
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


def _build_schema(described: Schema | SchemaBuilder | None, what: str) -> Schema:
    if described is None:
        raise SchemaBuilderError(f"{what} cannot be null.")
    return described.build() if isinstance(described, SchemaBuilder) else described


def _check_can_set(name: str, now: object, *, new: object) -> None:
    if now is not None and now != new:
        raise SchemaBuilderError(f"Invalid SchemaBuilder call: {name} has already been set.")
