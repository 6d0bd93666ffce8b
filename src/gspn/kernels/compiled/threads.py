"""Compiled loops side by side in several threads: those that torch itself computes with.

Threads of OpenMP wait for their next work by spinning, for milliseconds, before they fall asleep. Any others would have
to share processors with them, and a step may take no longer than that: so work is handed to these very threads, from
compiled code, without a word of Python. Numba's own threading layers are not used: its OpenMP layer is another OpenMP
than torch's and dies in forked children, and its work queue ends the process when two Python threads call it at once.

Where torch computes with something else, and in a forked child, which inherits none of its parent's threads, the
calling thread does the work alone.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic as numba_intrinsic

from gspn.compiling import compiled

intrinsic: Callable[[Any], Any] = numba_intrinsic  # whose callers give no typing context


WORTH_A_THREAD = 4_000
"""Rows of a level, or as many vertices and edges, that are worth a thread of their own."""


class Team(NamedTuple):
    """Threads at hand, as compiled code wants to know them."""

    start: int
    """Address of the function that starts them; 0: there is none."""
    threads: int
    worth_a_thread: int


def team() -> Team:
    """As many threads as torch uses."""
    return Team(_start, torch.get_num_threads() if _start else 1, WORTH_A_THREAD)


@compiled
def parts(team: Team, amount: int) -> int:
    """How many threads to divide an amount of work among."""
    return max(1, min(team.threads, amount // team.worth_a_thread))


def _address() -> int:
    if not torch.backends.openmp.is_available():
        return 0
    try:
        start = ctypes.CDLL(None).GOMP_parallel  # among what the process has loaded are torch's libraries
    except (OSError, AttributeError, TypeError):
        return 0
    return ctypes.cast(start, ctypes.c_void_p).value or 0


_start = _address()


def _forget() -> None:
    global _start
    _start = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@intrinsic
def side_by_side(typing: Any, loop: Any, start: Any, tasks: Any, given: Any) -> Any:
    """loop(number, *given) for the numbers 0 … tasks - 1, in as many threads; returns when all are done.

    `loop` is a compiled function that returns nothing, `start` a team's; 0: one after the other. Where it fails in any
    thread, which only allocations can, there is a MemoryError once all are done.
    """
    argument_types = types.intp, *(types.unliteral(kind) for kind in given.types)
    signature = loop.get_call_type(typing, argument_types, {})
    compiled_loop = loop.dispatcher.get_compile_result(signature)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        start_value, tasks_value, given_value = arguments[1:]
        number_type, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        # What all threads see: the next number, the number of tasks, the arguments, how many calls have failed.
        shared_type = ir.LiteralStructType([number_type, number_type, given_value.type, number_type])
        shared = cgutils.alloca_once(builder, shared_type)
        values = number_type(0), tasks_value, _lent(builder, given, given_value), number_type(0)
        for place, value in enumerate(values):
            builder.store(value, cgutils.gep_inbounds(builder, shared, 0, place))

        # What each of them does: take a number until there are none.
        name = builder.module.get_unique_name(f"{builder.function.name}.body")
        body = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [pointer]), name)
        body.linkage = "internal"
        inner = ir.IRBuilder(body.append_basic_block("entry"))
        take, work, done = (body.append_basic_block(block) for block in ("take", "work", "done"))
        ours = inner.bitcast(body.args[0], shared_type.as_pointer())
        count, values = (inner.load(cgutils.gep_inbounds(inner, ours, 0, place)) for place in (1, 2))
        function = context.declare_function(inner.module, compiled_loop.fndesc)
        inner.branch(take)
        inner.position_at_end(take)
        number = inner.atomic_rmw("add", cgutils.gep_inbounds(inner, ours, 0, 0), number_type(1), "monotonic")
        inner.cbranch(inner.icmp_signed("<", number, count), work, done)
        inner.position_at_end(work)
        items = [inner.extract_value(values, place) for place in range(len(given.types))]
        status, _ = context.call_conv.call_function(
            inner, function, signature.return_type, argument_types, (number, *items)
        )
        failed = inner.zext(status.is_error, number_type)
        inner.atomic_rmw("add", cgutils.gep_inbounds(inner, ours, 0, 3), failed, "monotonic")
        inner.branch(take)
        inner.position_at_end(done)
        inner.ret_void()
        context.active_code_library.add_linking_library(compiled_loop.library)

        data = builder.bitcast(shared, pointer)
        word = ir.IntType(32)
        start_type = ir.FunctionType(ir.VoidType(), [pointer, pointer, word, word]).as_pointer()
        alone = builder.or_(
            builder.icmp_signed("==", start_value, number_type(0)),
            builder.icmp_signed("==", tasks_value, number_type(1)),
        )
        with builder.if_else(alone) as (then, otherwise):
            with then:
                builder.call(body, [data])
            with otherwise:
                task = builder.bitcast(body, pointer)
                amount = builder.trunc(tasks_value, word)
                builder.call(builder.inttoptr(start_value, start_type), [task, data, amount, word(0)])
        failures = builder.load(cgutils.gep_inbounds(builder, shared, 0, 3))
        with cgutils.if_unlikely(builder, builder.icmp_signed("!=", failures, number_type(0))):
            message = "a compiled loop has failed in a thread; there was probably too little memory"
            context.call_conv.return_user_exc(builder, MemoryError, (message,))
        return context.get_dummy_value()

    return types.void(loop, types.intp, types.intp, given), generate


def _lent(builder: Any, kind: Any, value: Any) -> Any:
    """Arrays that nobody counts references to: the caller keeps them alive.

    Otherwise all threads would count, in the same places of memory, and spend most of their time waiting for these.
    """
    if isinstance(kind, types.Array):
        counter = builder.extract_value(value, 0)
        return builder.insert_value(value, ir.Constant(counter.type, None), 0)
    for place, item_kind in enumerate(getattr(kind, "types", ())):  # of a tuple
        value = builder.insert_value(value, _lent(builder, item_kind, builder.extract_value(value, place)), place)
    return value
