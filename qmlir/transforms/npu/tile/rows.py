"""Tiles layers of operations on rows: softmax and normalizations, some whole rows at a time."""

from qmlir.devices.legality.fitting import MOST, RowOp, row_bytes, row_room
from qmlir.devices.legality.least import normalization_fields, softmax_fields
from qmlir.devices.model.tables import of_rows, role_of
from qmlir.dialects import qint
from qmlir.dialects.npu import LayerOp
from qmlir.errors import UnsupportedError
from qmlir.isa.commands import Normalize, Softmax
from qmlir.transforms.npu.tile.emission import Emitter, Spot, Tile, View
from qmlir.transforms.npu.tile.vector import tiles


def tile_rows(emitter: Emitter, layer: LayerOp, op: RowOp) -> None:
    """Emits the commands of an operation on rows: as many rows at a time as fit twice, or a single row.

    Raises:
        UnsupportedError: Not even a single row fits, or the device has no words for it.
    """
    post, label = emitter.engines.post, layer.label.data
    source, target = (
        _as_rows(views[0], op) for views in (emitter.views(op.x), emitter.result(layer.outputs[0], label))
    )
    rooms = row_room(emitter.engines, emitter.regions, source.memory, target.memory)
    sizes = [row_bytes(op, value) for value in (op.x, op.y)]
    if any(size > room for size, room in zip(sizes, rooms, strict=True)):
        got = f"rows of {sizes[0]} and {sizes[1]} bytes for {rooms[0]} and {rooms[1]}"
        raise UnsupportedError.at(op.name, label, f"must have rows that fit the memories of {post.id}", got=got)
    fitting = (room // 2 // size for size, room in zip(sizes, rooms, strict=True))
    most, total = max(min(*fitting, MOST // op.split()[1]), 1), source.shape[1]
    tables = [emitter.staged(table, role_of(op, emitter.engines)) for table in of_rows(op)]

    def emit(tile: Tile) -> None:
        for rows in tiles(total, *tile):
            part = target.box(range(1), rows, range(target.shape[2]))
            data = emitter.load(source.box(range(1), rows, range(source.shape[2])), post)
            room = emitter.room(part, post)
            _command(emitter, op, data, room, tables)
            emitter.store(room, part, post)

    emitter.in_tiles((-(-total // -(-total // most)),), emit)  # alike, so that none is a small rest


def _as_rows(view: View, op: RowOp) -> View:
    """A dense tensor, given by its first image, as pixels in a line, each of which is a row of the operation."""
    before, along, _ = op.split()
    return View.dense(view.memory, view.spot, (1, before, along), view.bits)


def _command(emitter: Emitter, op: RowOp, source: View, target: View, tables: list[Spot]) -> None:
    _, rows, _ = source.shape
    places = {"source": source.spot, "target": target.spot}
    extents = {"rows": rows, "source_row": source.pixel_pitch, "target_row": target.pixel_pitch}
    if isinstance(op, qint.SoftmaxOp):
        read = {"table": tables[0], "inverse": tables[-1]}
        emitter.issue(emitter.engines.post, Softmax, **places, **read, **(softmax_fields(op) | extents))
    else:
        emitter.issue(emitter.engines.post, Normalize, **places, **(normalization_fields(op) | extents))
