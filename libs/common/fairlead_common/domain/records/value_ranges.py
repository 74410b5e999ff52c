"""The ranges of values in events: what every fold's columns and tables can hold."""

from typing import Annotated

from msgspec import Meta

Name = Annotated[str, Meta(max_length=256)]
"""Of a queue, job set, class, pool, executor or node: Postgres cannot index texts of unlimited
length."""
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
RunNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Milliseconds = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Seconds = Annotated[int, Meta(ge=-(2**43), le=2**43)]
"""Ranges that the columns and tables of every fold can contain; submit permits less."""
