"""Encode ONNX's messages as bytes. Field numbers: onnx.proto of the ONNX project, IR versions 8 to 10.

A message is a list of pieces, so that weights are written from where they lie and never copied into one another.
"""

import struct

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = 1, 2, 3, 4, 5, 6, 7, 8  # AttributeProto.AttributeType

#: names of dtypes -> TensorProto.DataType
DTYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16, "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20,
}  # fmt: skip

#: opset -> version of the file format that came with it
IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10}


def _varint(number):
    number &= (1 << 64) - 1  # negative numbers are written as 64 bits
    pieces = bytearray()
    while number > 127:
        pieces.append(number & 127 | 128)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def length(message):
    return sum(len(piece) for piece in message)


def integer(field, number):
    return [_varint(field << 3) + _varint(number)]


def real(field, number):
    return [_varint(field << 3 | 5) + struct.pack("<f", number)]


def data(field, *pieces):
    return [_varint(field << 3 | 2) + _varint(length(pieces)), *pieces]


def text(field, string):
    return data(field, string.encode()) if string else []


def within(field, message):
    return data(field, *message)


def packed_integers(field, numbers):
    return data(field, b"".join(map(_varint, numbers)))


def tensor(name, dtype, sizes, raw):
    """Return a TensorProto with its bytes; `raw` is `(file, offset, length)` where they lie in another file."""
    message = [*packed_integers(1, sizes), *integer(2, DTYPES[dtype]), *text(8, name)]
    if not isinstance(raw, tuple):
        return [*message, *data(9, raw)]
    for key, value in zip(("location", "offset", "length"), raw):
        message += within(13, [*text(1, key), *text(2, str(value))])
    return [*message, *integer(14, 1)]


def attribute(name, value):
    """Return an AttributeProto of a number, a string, a list of them, or a message made by `tensor` or `graph` as `(kind,
    message)`."""
    message = text(1, name)
    if isinstance(value, tuple):
        kind, inner = value
        return [*message, *within({TENSOR: 5, GRAPH: 6}[kind], inner), *integer(20, kind)]
    if isinstance(value, str):
        return [*message, *data(4, value.encode()), *integer(20, STRING)]
    if isinstance(value, bool) or isinstance(value, int):
        return [*message, *integer(3, value), *integer(20, INT)]
    if isinstance(value, float):
        return [*message, *real(2, value), *integer(20, FLOAT)]
    if value and isinstance(value[0], str):
        return [*message, *(piece for s in value for piece in data(9, s.encode())), *integer(20, STRINGS)]
    if value and isinstance(value[0], float):
        return [*message, *data(7, struct.pack(f"<{len(value)}f", *value)), *integer(20, FLOATS)]
    return [*message, *packed_integers(8, value), *integer(20, INTS)]


def node(op, inputs, outputs, attributes, name, domain="", metadata=None):
    message = []
    for value in inputs:
        message += data(1, value.encode())  # also an empty one, which stands for an optional input
    for value in outputs:
        message += data(2, value.encode())
    message += [*text(3, name), *text(4, op)]
    for key, value in attributes.items():
        message += within(5, attribute(key, value))
    message += text(7, domain)
    for key, value in (metadata or {}).items():
        message += within(9, [*text(1, key), *text(2, value)])
    return message


def value_info(name, dtype, sizes):
    """Return a ValueInfoProto; a size is a number, a name, or None; sizes None: the rank is not known."""
    kind = integer(1, DTYPES[dtype])
    if sizes is not None:
        dims = []
        for size in sizes:
            dims += within(1, integer(1, size) if isinstance(size, int) else text(2, size or ""))
        kind += within(2, dims)
    return [*text(1, name), *within(2, within(1, kind))]


def graph(name, nodes, initializers, inputs, outputs, values):
    message = []
    for n in nodes:
        message += within(1, n)
    message += text(2, name)
    for t in initializers:
        message += within(5, t)
    for field, infos in ((11, inputs), (12, outputs), (13, values)):
        for info in infos:
            message += within(field, info)
    return message


def model(graph, opsets, producer, version):
    message = [*integer(1, IR_VERSIONS[opsets[""]]), *text(2, producer), *text(3, version), *within(7, graph)]
    for domain, number in opsets.items():
        message += within(8, [*text(1, domain), *integer(2, number)])
    return message
