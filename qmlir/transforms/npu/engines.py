"""Maps work to the queues of a device, and data to its memories; everything is derived from the device file."""

from dataclasses import dataclass

from qmlir.devices import Device
from qmlir.devices.description import Memory, Queue
from qmlir.devices.values import Role


@dataclass(frozen=True)
class Engines:
    """The queues and memories of a device as the compiler uses them.

    device   the device
    array    the queue that executes contractions
    post     the queue that executes `Post` and `Arithmetic`
    pool     the queue that executes `Pool` and `Reduce`
    """

    device: Device
    array: Queue
    post: Queue
    pool: Queue

    @staticmethod
    def of(device: Device) -> "Engines":
        """The engines of a device.

        `post` is the array if the array has `post` fused or there is no vector engine; otherwise it is the first vector
        engine. `pool` is the first vector engine, or the array if there is no vector engine.
        """
        array = next(q for q in device.queue if q.engine == "array")
        vector = [q for q in device.queue if q.engine == "vector"]
        post = array if "post" in array.fused or not vector else vector[0]
        pool = vector[0] if vector else array
        return Engines(device, array, post, pool)

    @property
    def external(self) -> Memory:
        """The memory where the tensors of the network lie."""
        return next(m for m in self.device.memory if m.external and not m.read_only)

    def constants(self, role: Role) -> Memory:
        """The memory that holds the constants of a role from the start; a read-only memory takes precedence."""
        outside = [m for m in self.device.memory if m.external and role in m.holds]
        return next((m for m in outside if m.read_only), self.external)

    def staging(self, role: Role, source: Memory) -> tuple[Memory, Queue] | None:
        """The memory to which data of a role is loaded, and the queue that loads it; None to use it in place."""
        holding = sorted((m for m in self.device.memory if role in m.holds), key=lambda m: m.external)
        for memory in holding:
            for queue in self.device.queue:
                if queue.engine == "dma" and source.id in queue.source and memory.id in queue.target:
                    return memory, queue
        return None

    def reading(self, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue reads tiles of tensors, and the queue that loads them; None if it reads tensors in place."""
        return None if "load" in queue.fused else self.staging("ifm", self.external)

    def writing(self, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue writes tiles of results, and the queue that stores them; None if it writes in place."""
        if "store" in queue.fused:
            return None
        for memory in (m for m in self.device.memory if "ofm" in m.holds and not m.external):
            for store in self.device.queue:
                if store.engine == "dma" and memory.id in store.source and self.external.id in store.target:
                    return memory, store
        return None

    @property
    def staying(self) -> Memory | None:
        """The memory inside the device where tensors can stay from one layer to the next; None if there is none.

        All queues read their data from it and can leave results there.
        """
        read = [self.reading(queue) for queue in (self.array, self.post, self.pool)]
        written = [self.writing(queue) for queue in (self.post, self.pool)]
        memories = [None if way is None else way[0] for way in read] + [way[0] for way in written if way is not None]
        memory = memories[0]
        fits = memory is not None and not memory.external and "ofm" in memory.holds
        return memory if fits and all(other == memory for other in memories) else None

    @property
    def sums(self) -> Memory:
        """The memory of the sums of products."""
        return self.device.memory_of("acc")

    @property
    def between(self) -> tuple[Memory, Role]:
        """The memory and role of the intermediate tile that one command leaves to the next."""
        written = self.writing(self.post)
        return (self.sums, "acc") if written is None else (written[0], "ofm")

    def tables(self) -> Role:
        """The role under which tables of multipliers and shifts are stored."""
        known = {role for memory in self.device.memory for role in memory.holds}
        return "scales" if "scales" in known else "bias"

    def index(self, queue: Queue) -> int:
        """The number of a queue."""
        return self.device.queue.index(queue)
