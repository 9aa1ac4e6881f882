"""Which queue of a device does what, and in which memory it finds and leaves things; all from the device file."""

from dataclasses import dataclass

from qmlir.device import Device
from qmlir.device.description import Memory, Queue
from qmlir.device.values import Role


@dataclass(frozen=True)
class Engines:
    """A device as its compiler sees it.

    device   its file
    array    the queue of contractions
    post     the queue of what follows: `Post` and `Arithmetic`
    pool     the queue of `Pool` and `Reduce`
    """

    device: Device
    array: Queue
    post: Queue
    pool: Queue

    @staticmethod
    def of(device: Device) -> "Engines":
        """The engines of a device: what an array has fused it does itself, else the first vector engine."""
        array = next(q for q in device.queue if q.engine == "array")
        vector = [q for q in device.queue if q.engine == "vector"]
        post = array if "post" in array.fused or not vector else vector[0]
        pool = vector[0] if vector else array
        return Engines(device, array, post, pool)

    @property
    def external(self) -> Memory:
        """Where the tensors of the network lie."""
        return next(m for m in self.device.memory if m.external and not m.read_only)

    def constants(self, role: Role) -> Memory:
        """Where constants of a role lie before anything runs: in memory that is read-only, if there is some."""
        outside = [m for m in self.device.memory if m.external and role in m.holds]
        return next((m for m in outside if m.read_only), self.external)

    def staging(self, role: Role, source: Memory) -> tuple[Memory, Queue] | None:
        """Where data of a role is brought before use, and the queue that brings it; None to use it in place."""
        holding = sorted((m for m in self.device.memory if role in m.holds), key=lambda m: m.external)
        for memory in holding:
            for queue in self.device.queue:
                if queue.engine == "dma" and source.id in queue.source and memory.id in queue.target:
                    return memory, queue
        return None

    def reading(self, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue finds tiles of tensors, and what brings them there; None if it reads the tensors themselves."""
        return None if "load" in queue.fused else self.staging("ifm", self.external)

    def writing(self, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue leaves tiles of results, and what takes them away; None if it writes the tensors themselves."""
        if "store" in queue.fused:
            return None
        for memory in (m for m in self.device.memory if "ofm" in m.holds and not m.external):
            for store in self.device.queue:
                if store.engine == "dma" and memory.id in store.source and self.external.id in store.target:
                    return memory, store
        return None

    @property
    def staying(self) -> Memory | None:
        """The memory inside the device where tensors can stay from one layer to the next; None without one.

        All queues find their data in it and can leave results there.
        """
        read = [self.reading(queue) for queue in (self.array, self.post, self.pool)]
        written = [self.writing(queue) for queue in (self.post, self.pool)]
        memories = [None if way is None else way[0] for way in read] + [way[0] for way in written if way is not None]
        memory = memories[0]
        fits = memory is not None and not memory.external and "ofm" in memory.holds
        return memory if fits and all(other == memory for other in memories) else None

    @property
    def sums(self) -> Memory:
        """Where sums of products lie."""
        return self.device.memory_of("acc")

    @property
    def between(self) -> tuple[Memory, Role]:
        """Where the numbers lie that one command on a tile leaves to the next, and as what."""
        written = self.writing(self.post)
        return (self.sums, "acc") if written is None else (written[0], "ofm")

    def tables(self) -> Role:
        """The role under which tables of multipliers and shifts are held."""
        known = {role for memory in self.device.memory for role in memory.holds}
        return "scales" if "scales" in known else "bias"

    def index(self, queue: Queue) -> int:
        """The number of a queue."""
        return self.device.queue.index(queue)
