"""A DLPackObject is passed to another process by the queues and pools of the standard library, as a copy."""

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from dlpack import asdlpack
from support.alone import alone, uses_dev_shm
from support.engines import end_holding, facts, kinds, seen, there_and_back
from support.threads import in_threads

METHODS = ["fork", "forkserver", "spawn"]


def answer(asked, answered):
    answered.put(there_and_back(asked.get()))


def by_queue(context, xs):
    asked, answered = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(asked, answered))
    process.start()
    asked.put(xs)
    result = answered.get()
    process.join()
    return result


def by_pool(context, xs):
    with context.Pool(1) as pool:
        result = pool.apply(there_and_back, (xs,))
        pool.close()
        pool.join()
    return result


def by_executor(context, xs):
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(there_and_back, xs).result()


@uses_dev_shm
@pytest.mark.parametrize("method", METHODS)
@alone(timeout=120)
def test_queues_and_pools_bring_every_kind_there_and_back(method):
    xs = kinds()
    for way in by_queue, by_pool, by_executor:
        there, back = way(multiprocessing.get_context(method), xs)
        for x, (process, *got), y in zip(xs, there, back, strict=True):
            assert process != os.getpid(), way
            assert got == [facts(x), x.readonly] and facts(y) == facts(x), way


@uses_dev_shm
@pytest.mark.parametrize("method", METHODS)
@alone(timeout=120)
def test_a_worker_that_dies_with_its_copy_leaves_the_memory_as_it_was(method):
    memory = bytearray(b"memory")
    x = asdlpack(memory)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool, pytest.raises(BrokenProcessPool):
        pool.submit(end_holding, x).result()
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(seen, x).result()[1] == facts(x)
    del x
    memory.append(0)


def test_threads_that_pickle_one_object_at_once_get_the_same(quick_switches):
    memory = bytearray(1 << 16)
    common = [asdlpack(memoryview(memory))]

    def work(number):
        [x] = common
        for _ in range(100):
            buffers = []
            data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
            y = pickle.loads(data, buffers=buffers)
            assert (y.pointer, y.shape) == (x.pointer, x.shape)
            assert facts(pickle.loads(pickle.dumps(x, protocol=number % 6))) == facts(x)

    in_threads(work, 8)
    common.clear()
    memory.append(0)
