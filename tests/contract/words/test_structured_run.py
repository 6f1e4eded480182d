"""One run of words that were written by hand: which rule each small mistake breaks, and which canonical states are the
same."""

from tilewright.contract.words.run import Run
from tilewright.contract.words.snapshot import snapshot
from tilewright.contract.words.word import Part, Piece, Region, Step, Word

FULL, EMPTY = ("full", 0), ("empty", 0)
SLOT = Region("slots", ((0, 1), (0, 64)))
OTHER = Region("slots", ((1, 2), (0, 64)))
ONE = Part("one thread", 1)
TENSOR = Region("accumulator", ((0, 128),), True, True)


def ran(*steps, by_threads=False, **partitions):
    """A run of the main agent's steps, and of partitions that it begins after its first steps and waits for."""
    words = {"default": Word("default", list(steps), [])}
    for name, inner in partitions.items():
        words[name] = Word(name, list(inner), [])
    run = Run(words, by_threads=by_threads)
    run.go()
    return run


def codes(run):
    return {trouble.code for trouble in run.troubles.values()}


def init(*barriers, count=1):
    return [Step("init", 1, barrier, count) for barrier in barriers]


def together(main, *, count=1, **partitions):
    names = tuple(partitions)
    steps = [*init(FULL, EMPTY, count=count), Step("spawn", 2, agents=names), *main, Step("join", 90, agents=names)]
    return ran(*steps, **partitions)


FILL = [Step("expect", 11, FULL, 128), Step("load", 12, FULL, 128, (SLOT,))]
READ = [Step("wait", 21, FULL, 0), Step("read", 22, regions=(SLOT,))]


def test_a_fill_and_a_read():
    assert not codes(together([*READ], filler=FILL))


def test_a_read_without_its_wait():
    run = together(READ[1:], filler=FILL)
    assert "MB111" in codes(run)
    trouble = next(each for each in run.troubles.values() if each.code == "MB111")
    assert (trouble.line, trouble.other) == (22, 12)


def test_a_refill_without_a_release():
    """The second fill is ordered by nothing after the read."""
    run = together([*READ, Step("wait", 23, FULL, 1)], filler=[*FILL, Step("wait", 13, FULL, 0), *FILL])
    assert {"TM101", "MB108"} & codes(run)


def test_a_refill_after_a_release():
    release, again = Step("arrive", 24, EMPTY, 1), Step("wait", 13, EMPTY, 0)
    run = together([*READ, release, Step("wait", 23, FULL, 1)], filler=[*FILL, again, *FILL])
    assert not codes(run)


def test_bytes():
    assert "TX104" in codes(together(READ, filler=[Step("expect", 11, FULL, 256), FILL[1]]))
    assert codes(together(READ, filler=[Step("expect", 11, FULL, 64), FILL[1]])) & {"TX101", "TX104"}


def test_arrivals():
    assert "MB113" in codes(together(READ, filler=FILL, count=2))
    assert "MB106" in codes(together([], filler=[Step("arrive", 11, FULL, 2)]))
    assert "MB107" in codes(together([], filler=[Step("arrive", 11, FULL, 1)] * 2))
    assert "MB110" in codes(together([], filler=[Step("arrive", 11, FULL, 1)], count=2))


def test_lifecycle():
    assert "MB101" in codes(ran(Step("arrive", 1, FULL, 1)))
    assert "MB103" in codes(ran(*init(FULL, FULL)))
    assert "MB201" in codes(ran(*init(FULL, count=0)))
    assert "MB103" in codes(together([Step("inval", 5, EMPTY)], other=[Step("arrive", 11, EMPTY, 1)]))
    assert not codes(ran(*init(FULL), Step("inval", 2, FULL), *init(FULL)))


def test_parities():
    assert "MB212" in codes(ran(*init(FULL), Step("wait", 2, FULL, 2)))
    assert not codes(ran(*init(FULL), Step("wait", 2, FULL, 1)))
    assert {"MB113", "MB114"} & codes(ran(*init(FULL), Step("wait", 2, FULL, 0)))


def test_a_circle_of_waits():
    run = together(
        [Step("wait", 21, FULL, 0), Step("arrive", 22, EMPTY, 1)],
        other=[Step("wait", 11, EMPTY, 0), Step("arrive", 12, FULL, 1)],
    )
    (trouble,) = run.troubles.values()
    assert trouble.code in ("MB114", "LV102") and len(trouble.steps) == 2


def test_wgmma():
    read, refill = Step("dot", 2, regions=(SLOT,)), Step("write", 4, regions=(SLOT,))
    assert not codes(ran(read, Step("dot_wait", 3), refill))
    assert "WG105" in codes(ran(read, refill, Step("dot_wait", 3)))
    assert not codes(ran(read, Step("write", 4, regions=(OTHER,)), Step("dot_wait", 3)))
    assert "WG105" in codes(ran(read, Step("dot_wait", 3, value=1), refill, Step("dot_wait", 5)))
    assert "WG104" in codes(ran(read, Step("use", 3), Step("dot_wait", 4)))
    assert "WG103" in codes(ran(read))


def test_stores_and_copies():
    store = [Step("store", 2, regions=(SLOT,)), Step("store_commit", 2)]
    write = Step("write", 4, regions=(SLOT,))
    assert not codes(ran(*store, Step("store_wait_read", 3), write))
    assert "BG103" in codes(ran(*store, write, Step("store_wait_read", 3)))
    assert "BG102" in codes(ran(*store))
    assert "BG101" in codes(ran(*store[:1]))
    copy = [Step("copy", 2, regions=(SLOT,)), Step("copy_commit", 2)]
    read = Step("read", 4, regions=(SLOT,))
    assert not codes(ran(*copy, Step("copy_wait", 3), read))
    assert "BG105" in codes(ran(*copy, Step("copy_wait", 3, value=1), read, Step("copy_wait", 5)))
    assert "BG104" in codes(ran(*copy))


def test_tensor_cores():
    product, commit = Step("mma", 2, regions=(SLOT, TENSOR)), Step("commit", 3, FULL)
    wait, load = Step("wait", 4, FULL, 0), Step("read", 5, regions=(TENSOR,))
    assert not codes(ran(*init(FULL), product, commit, wait, load))
    assert "TC107" in codes(ran(*init(FULL), product, commit, load, wait))
    assert "TC110" in codes(ran(*init(FULL), product, commit, Step("write", 5, regions=(SLOT,)), wait))
    assert "TC114" in codes(ran(product))
    assert "TC119" in codes(ran(*init(FULL), product, commit))
    assert not codes(ran(*init(FULL), product, product, commit, wait, load))


def test_one_thread_of_a_group():
    """What all threads wrote one of them may hand to an engine after a fence and a barrier."""
    write, fence, sync = Step("write", 1, regions=(SLOT,)), Step("fence", 2), Step("group_sync", 3, value=1)
    store = [
        Step("store", 4, regions=(SLOT,), part=ONE),
        Step("store_commit", 5, part=ONE),
        Step("store_wait_read", 6, part=ONE),
    ]
    assert not codes(ran(write, fence, sync, *store, by_threads=True))
    assert "PX101" in codes(ran(write, sync, *store, by_threads=True))
    assert "TM101" in codes(ran(write, fence, *store, by_threads=True))
    assert "BG103" in codes(ran(write, fence, sync, *store, write, by_threads=True))
    assert not codes(ran(write, fence, sync, *store, sync, write, by_threads=True))


def test_canonical_states_repeat_with_the_ring():
    """After two rounds of fill, read and release the state is that after one; in the middle of a round it is not."""
    one = [*FILL, Step("wait", 3, FULL, 0), READ[1]]
    two = [*FILL, Step("wait", 3, FULL, 1), READ[1]]

    def state(*rounds):
        return snapshot(ran(*init(FULL), *(step for each in rounds for step in each)))

    assert state(one, two) == state(one, two, one, two) == state(one, two, one, two, one, two)
    assert state(one, two) != state(one, two, one)
    assert state(one, two, FILL) != state(one, two, one, two)


HALF, OTHER_HALF = Part("threads 0 to 63", (1 << 64) - 1), Part("threads 64 to 127", ((1 << 64) - 1) << 64)
LINE = "bytes"


def rows(shift=0, threads=range(128)):
    """Each thread's own byte, or that of the thread `shift` further."""
    pieces = sorted(Piece((thread + shift) % 128, (thread + shift) % 128 + 1, thread) for thread in threads)
    return Region(LINE, ((pieces[0].begin, pieces[-1].end),), True, False, tuple(pieces))


def test_threads_of_an_agent_know_their_own_bytes_and_no_others():
    write, own = Step("write", 1, regions=(rows(),)), Step("read", 2, regions=(rows(),))
    assert not codes(ran(write, own, by_threads=True))
    far, near = Step("read", 2, regions=(rows(64),)), Step("read", 2, regions=(rows(1),))
    assert "NB101" in codes(ran(write, far, by_threads=True))
    assert not codes(ran(write, Step("group_sync", 3), far, by_threads=True))
    # Within a warp it is contested; across the warps' ends it is not.
    assert "NB101" in codes(ran(write, near, by_threads=True))


def test_parts_know_what_everyone_knows_and_not_what_other_parts_do():
    write = Step("write", 1, regions=(rows(threads=range(64)),), part=HALF)
    read = Step("read", 2, regions=(rows(64, threads=range(64, 128)),), part=OTHER_HALF)
    assert "NB101" in codes(ran(write, read, by_threads=True))
    assert not codes(ran(write, Step("sync", 3), read, by_threads=True))
    arrive = Step("arrive", 4, FULL, 64, part=HALF)
    wait = Step("wait", 5, FULL, 0, part=OTHER_HALF)
    begun = [*init(FULL, count=64), Step("sync", 0)]
    begun[0] = begun[0]._replace(part=ONE)
    assert not codes(ran(*begun, write, arrive, wait, read, by_threads=True))
    assert "NB101" in codes(ran(*begun, arrive, write, wait, read, by_threads=True))


def test_a_part_within_another_knows_what_that_waited_for():
    begun = [*init(FULL, count=1), Step("sync", 0)]
    begun[0] = begun[0]._replace(part=ONE)
    fill = [Step("expect", 3, FULL, 64, part=ONE), Step("load", 4, FULL, 64, (Region(LINE, ((0, 64),)),), part=ONE)]
    wait, read = Step("wait", 5, FULL, 0, part=HALF), Step("read", 6, regions=(rows(threads=range(1)),), part=ONE)
    assert not codes(ran(*begun, *fill, wait, read, by_threads=True))
    elsewhere = Step("read", 6, regions=(rows(-64, threads=range(64, 128)),), part=OTHER_HALF)
    assert "MB111" in codes(ran(*begun, *fill, wait, elsewhere, by_threads=True))
