"""The GRU over a batch of captions (`packed_gru.py`) on a Hopper GPU, in bfloat16.

A recurrence is a chain: what costs time is not its arithmetic but its steps, each of which waits for
the last one. Here all steps are one launch. Every program owns ROWS captions and UNITS units of their
states. It keeps its share of the weights in shared memory and its states in registers, in single
precision, and after each word shows the states to the programs that own the other units of the same
captions. They wait for each other by counting arrivals, so all programs must be on the device at once:
see `fused_gru.fits`.
"""

from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import async_copy

# Two names that have changed between versions of Triton.
barrier: Any = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
fetch: Any = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared

ROWS = gl.constexpr(64)
UNITS = gl.constexpr(16)
# Columns of a tile of states: as many as one swizzled line of memory holds.
DEPTH = gl.constexpr(64)
STAGES = gl.constexpr(8)  # tiles on their way at once; a power of two, as the ring is indexed by it
LINE = gl.constexpr(32)  # counters this far apart do not share a line of the cache

OWN_LAYOUT = gl.constexpr(
    gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 16, 16])
)  # of ROWS x UNITS
WIDE_LAYOUT = gl.constexpr(
    gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
)  # 16 bytes a thread, of DEPTH
NARROW_LAYOUT = gl.constexpr(
    gl.BlockedLayout([1, 8], [16, 2], [4, 1], [1, 0])
)  # likewise, of UNITS
FLAT_LAYOUT = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]))
WIDE_TILE = gl.constexpr(gl.NVMMASharedLayout(128, 16, 2))
NARROW_TILE = gl.constexpr(gl.NVMMASharedLayout(32, 16, 2))


@gluon.jit(do_not_specialize=["num_captions", "width", "capacity"])
def pack(
    table, words, lengths, packed, starts, inputs,
    num_captions, width, capacity, word_dim, input_dim,
    CAPTIONS: gl.constexpr, COLUMNS: gl.constexpr,
):  # fmt: skip
    """Some words of one step: which they are, and their vectors. The last step is all padding."""
    step = gl.program_id(0)
    captions = gl.arange(0, CAPTIONS, gl.BlockedLayout([1], [32], [4], [0]))
    length = gl.load(lengths + captions, mask=captions < num_captions, other=0)
    # Before step t stand the first t words of every caption, or all that it has.
    start = gl.sum(gl.minimum(length, step), axis=0)
    if gl.program_id(1) == 0:
        gl.store(starts + step, start)
    num_words = gl.sum((length > step).to(gl.int32), axis=0)
    num_rows = gl.where(step < width, num_words, capacity - start)
    column = gl.arange(0, COLUMNS, gl.SliceLayout(0, FLAT_LAYOUT))[None, :]
    for first in range(gl.program_id(1) * 16, num_rows, gl.num_programs(1) * 16):
        row = first + gl.arange(0, 16, gl.SliceLayout(1, FLAT_LAYOUT))
        is_word = row < num_words
        word = gl.load(words + row * width + step, mask=is_word, other=0)
        gl.store(packed + start + row, word, mask=row < num_rows)
        source = table + word.to(gl.int64)[:, None] * word_dim + column
        vector = gl.load(source, mask=is_word[:, None] & (column < word_dim), other=0.0)
        target = inputs + (start + row)[:, None] * input_dim + column
        inside = (row < num_rows)[:, None] & (column < input_dim)
        gl.store(target, vector.to(gl.bfloat16), mask=inside)


@gluon.jit(do_not_specialize=["num_captions", "capacity"])
def gru_forward(
    projected, weight, input_bias, state_bias, lengths, starts, before, gates, last, arrived,
    num_captions, capacity, HIDDEN: gl.constexpr,
):  # fmt: skip
    """The states of all captions, word after word; keeps what the backward pass will need."""
    kept = gl.allocate_shared_memory(gl.bfloat16, [3 * HIDDEN // DEPTH, UNITS, DEPTH], WIDE_TILE)
    ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, ROWS, DEPTH], WIDE_TILE)
    _load_rows(weight, kept, HIDDEN)
    rows, units, length = _own_tile(lengths, num_captions)
    own = rows[:, None] * HIDDEN + units[None, :]
    is_caption = (rows < num_captions)[:, None]
    bias_r = gl.load(input_bias + units) + gl.load(state_bias + units)
    bias_z = gl.load(input_bias + HIDDEN + units) + gl.load(state_bias + HIDDEN + units)
    bias_n = gl.load(input_bias + 2 * HIDDEN + units)
    bias_m = gl.load(state_bias + 2 * HIDDEN + units)
    state = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    gl.store(before + own, state.to(gl.bfloat16), mask=is_caption)
    counter = arrived + gl.program_id(1) * LINE
    num_steps = gl.max(length, axis=0)
    for step in range(num_steps):
        start = gl.load(starts + step)
        live = (length > step)[:, None]
        inputs = projected + (start + rows)[:, None] * (3 * HIDDEN) + units[None, :]
        input_r = gl.load(inputs, mask=live, other=0.0)
        input_z = gl.load(inputs + HIDDEN, mask=live, other=0.0)
        input_n = gl.load(inputs + 2 * HIDDEN, mask=live, other=0.0)
        r = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
        z = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
        m = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
        if step > 0:
            _wait(counter, step * gl.num_programs(0))
            source, is_there = _tiles_of(before, HIDDEN, start, step, lengths, num_captions)
            r, z, m = _multiply_states(source, is_there, kept, ring, r, z, m, HIDDEN)
        r = _sigmoid(r + input_r + bias_r[None, :])
        z = _sigmoid(z + input_z + bias_z[None, :])
        m = m + bias_m[None, :]
        n = 2 * _sigmoid(2 * (input_n + bias_n[None, :] + r * m)) - 1  # tanh
        state = gl.where(live, n + z * (state - n), state)
        ahead = before + (gl.load(starts + step + 1) + rows)[:, None] * HIDDEN + units[None, :]
        gl.store(ahead, state.to(gl.bfloat16), mask=(length > step + 1)[:, None])
        _arrive(counter, num_steps)
        out = gates + (start + rows)[:, None] * (4 * HIDDEN) + units[None, :]
        gl.store(out, r.to(gl.bfloat16), mask=live)
        gl.store(out + HIDDEN, z.to(gl.bfloat16), mask=live)
        gl.store(out + 2 * HIDDEN, n.to(gl.bfloat16), mask=live)
        gl.store(out + 3 * HIDDEN, m.to(gl.bfloat16), mask=live)
    gl.store(last + own, state, mask=is_caption)
    _clear(before, HIDDEN, gl.load(starts + num_steps), capacity, rows, units)


@gluon.jit(do_not_specialize=["num_captions", "capacity"])
def gru_backward(
    last_gradient, weight, lengths, starts, before, gates, gradients, sums, arrived,
    num_captions, capacity, HIDDEN: gl.constexpr,
):  # fmt: skip
    """The gradients of all gates, from the last word to the first."""
    kept = gl.allocate_shared_memory(gl.bfloat16, [3 * HIDDEN // DEPTH, DEPTH, UNITS], NARROW_TILE)
    ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, ROWS, DEPTH], WIDE_TILE)
    _load_columns(weight, kept, HIDDEN)
    rows, units, length = _own_tile(lengths, num_captions)
    own = rows[:, None] * HIDDEN + units[None, :]
    arriving = gl.load(last_gradient + own, mask=(rows < num_captions)[:, None], other=0.0)
    carried = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    sum_r = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    sum_z = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    sum_n = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    sum_m = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    counter = arrived + gl.program_id(1) * LINE
    num_steps = gl.max(length, axis=0)
    for back in range(num_steps):
        step = num_steps - 1 - back
        start = gl.load(starts + step)
        live = (length > step)[:, None]
        here = (start + rows)[:, None] * HIDDEN
        saved = gates + 4 * here + units[None, :]
        r = gl.load(saved, mask=live, other=0.0).to(gl.float32)
        z = gl.load(saved + HIDDEN, mask=live, other=0.0).to(gl.float32)
        n = gl.load(saved + 2 * HIDDEN, mask=live, other=0.0).to(gl.float32)
        m = gl.load(saved + 3 * HIDDEN, mask=live, other=0.0).to(gl.float32)
        past = gl.load(before + here + units[None, :], mask=live, other=0.0).to(gl.float32)
        gradient = gl.where((length == step + 1)[:, None], arriving, carried)
        grad_n = gradient * (1 - z) * (1 - n * n)
        grad_r = grad_n * m * r * (1 - r)
        grad_z = gradient * (past - n) * z * (1 - z)
        grad_m = grad_n * r
        out = gradients + 4 * here + units[None, :]
        gl.store(out, grad_r.to(gl.bfloat16), mask=live)
        gl.store(out + HIDDEN, grad_z.to(gl.bfloat16), mask=live)
        gl.store(out + 3 * HIDDEN, grad_m.to(gl.bfloat16), mask=live)
        _arrive(counter, num_steps)
        gl.store(out + 2 * HIDDEN, grad_n.to(gl.bfloat16), mask=live)
        sum_r += grad_r
        sum_z += grad_z
        sum_n += grad_n
        sum_m += grad_m
        if step > 0:
            _wait(counter, (back + 1) * gl.num_programs(0))
            source, is_there = _tiles_of(gradients, 4 * HIDDEN, start, step, lengths, num_captions)
            recurrent = _multiply_gradients(source, is_there, kept, ring, HIDDEN)
            carried = gl.where(live, gradient * z + recurrent, 0.0)
    column = sums + gl.program_id(1) * (4 * HIDDEN) + units
    gl.store(column, gl.sum(sum_r, axis=0))
    gl.store(column + HIDDEN, gl.sum(sum_z, axis=0))
    gl.store(column + 2 * HIDDEN, gl.sum(sum_n, axis=0))
    gl.store(column + 3 * HIDDEN, gl.sum(sum_m, axis=0))
    for gate in gl.static_range(4):
        first = gl.load(starts + num_steps)
        _clear(gradients + gate * HIDDEN, 4 * HIDDEN, first, capacity, rows, units)


@gluon.jit
def _own_tile(lengths, num_captions):
    """Captions and units of this program, and how many words the captions have."""
    rows = gl.program_id(1) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, OWN_LAYOUT))
    units = gl.program_id(0) * UNITS + gl.arange(0, UNITS, gl.SliceLayout(0, OWN_LAYOUT))
    return rows, units, gl.load(lengths + rows, mask=rows < num_captions, other=0)


@gluon.jit
def _load_rows(weight, kept, HIDDEN: gl.constexpr):
    """The rows of r, z and n that make this program's units, in tiles of DEPTH columns."""
    unit = gl.program_id(0) * UNITS + gl.arange(0, UNITS, gl.SliceLayout(1, WIDE_LAYOUT))
    column = gl.arange(0, DEPTH, gl.SliceLayout(0, WIDE_LAYOUT))
    for number in range(3 * HIDDEN // DEPTH):
        gate, tile = number // (HIDDEN // DEPTH), number % (HIDDEN // DEPTH)
        source = weight + (gate * HIDDEN + unit)[:, None] * HIDDEN + tile * DEPTH + column[None, :]
        fetch(kept.index(number), source)
    async_copy.commit_group()
    async_copy.wait_group(0)


@gluon.jit
def _load_columns(weight, kept, HIDDEN: gl.constexpr):
    """The columns that pass gradients on to this program's units, in tiles of DEPTH rows."""
    row = gl.arange(0, DEPTH, gl.SliceLayout(1, NARROW_LAYOUT))
    unit = gl.program_id(0) * UNITS + gl.arange(0, UNITS, gl.SliceLayout(0, NARROW_LAYOUT))
    for number in range(3 * HIDDEN // DEPTH):
        source = weight + (number * DEPTH + row)[:, None] * HIDDEN + unit[None, :]
        fetch(kept.index(number), source)
    async_copy.commit_group()
    async_copy.wait_group(0)


@gluon.jit
def _tiles_of(matrix, stride, start, step, lengths, num_captions):
    """Where the first tile of a step's rows lies, and which of them are captions that go on so far."""
    rows = gl.program_id(1) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, WIDE_LAYOUT))
    column = gl.arange(0, DEPTH, gl.SliceLayout(0, WIDE_LAYOUT))
    length = gl.load(lengths + rows, mask=rows < num_captions, other=0)
    return matrix + (start + rows)[:, None] * stride + column[None, :], (length > step)[:, None]


@gluon.jit
def _multiply_states(source, is_there, kept, ring, r, z, m, HIDDEN: gl.constexpr):
    """States times the kept weights of r, z and n. Rows that are not there hold anything."""
    tiles: gl.constexpr = HIDDEN // DEPTH
    for tile in gl.static_range(STAGES - 1):
        fetch(ring.index(tile), source + tile * DEPTH, mask=is_there)
        async_copy.commit_group()
    for tile in range(tiles):
        async_copy.wait_group(STAGES - 2)
        past = ring.index(tile % STAGES)
        r = hopper.warpgroup_mma(past, kept.index(tile).permute((1, 0)), r, is_async=True)
        z = hopper.warpgroup_mma(past, kept.index(tiles + tile).permute((1, 0)), z, is_async=True)
        m = hopper.warpgroup_mma(
            past, kept.index(2 * tiles + tile).permute((1, 0)), m, is_async=True
        )
        # The products of the tile before are done, and its place in the ring is free.
        r, z, m = hopper.warpgroup_mma_wait(3, deps=(r, z, m))
        ahead = tile + STAGES - 1
        fetch(ring.index(ahead % STAGES), source + ahead * DEPTH, mask=is_there & (ahead < tiles))
        async_copy.commit_group()
    return hopper.warpgroup_mma_wait(0, deps=(r, z, m))


@gluon.jit
def _multiply_gradients(source, is_there, kept, ring, HIDDEN: gl.constexpr):
    """Gradients of r, z and m times the kept weights. Rows that are not there hold anything."""
    tiles: gl.constexpr = 3 * HIDDEN // DEPTH
    for tile in gl.static_range(STAGES - 1):
        fetch(ring.index(tile), source + tile * DEPTH, mask=is_there)
        async_copy.commit_group()
    total = gl.zeros([ROWS, UNITS], gl.float32, OWN_LAYOUT)
    for tile in range(tiles):
        async_copy.wait_group(STAGES - 2)
        total = hopper.warpgroup_mma(
            ring.index(tile % STAGES), kept.index(tile), total, is_async=True
        )
        total = hopper.warpgroup_mma_wait(1, deps=(total,))
        ahead = tile + STAGES - 1
        skipped = gl.where(ahead * DEPTH < 2 * HIDDEN, 0, HIDDEN)  # n lies between z and m
        there = source + ahead * DEPTH + skipped
        fetch(ring.index(ahead % STAGES), there, mask=is_there & (ahead < tiles))
        async_copy.commit_group()
    return hopper.warpgroup_mma_wait(0, deps=(total,))


@gluon.jit
def _clear(matrix, stride, first, capacity, rows, units):
    """Zeros behind the last word: the weights' gradients are read off all rows, words or not."""
    if gl.program_id(1) == 0:
        for row in range(first, capacity, ROWS):
            place = matrix + (row + rows)[:, None] * stride + units[None, :]
            zeros = gl.zeros([ROWS, UNITS], gl.bfloat16, OWN_LAYOUT)
            gl.store(place, zeros, mask=(row + rows < capacity)[:, None])


@gluon.jit
def _sigmoid(x):
    return 1 / (1 + gl.exp(-x))


@gluon.jit
def _arrive(counter, num_steps):
    """Show what was stored to the programs that wait; the very last arrival winds the counter back."""
    barrier()  # all threads of this program have stored
    before = gl.atomic_add(counter, 1, sem="release", scope="gpu")
    if before == num_steps * gl.num_programs(0) - 1:
        gl.store(counter, 0)


@gluon.jit
def _wait(counter, arrivals):
    while gl.atomic_add(counter, 0, sem="acquire", scope="gpu") < arrivals:
        pass
    barrier()
