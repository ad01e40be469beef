"""Orders of ten fields, as values in Avro."""

from __future__ import annotations

__all__ = ["ID", "SCHEMA"]

ID = 7
SCHEMA = {
    "type": "record", "name": "Order", "namespace": "bench", "fields": [
        {"name": "id", "type": "long"}, {"name": "customer", "type": "string"}, {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"}, {"name": "count", "type": "int"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID", "SHIPPED"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    ],
}  # fmt: skip
