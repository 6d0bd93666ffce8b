"""Eight numbers side by side in vector registers: the arithmetic that the compiled loops are written in.

Numba leaves vector instructions to the compiler's guess, which fails for rows of a few dozen states: it wants longer
loops, and calls to `exp` keep it from vectorising at all. Here a group of eight numbers is a type of its own. The
compiler translates it for whatever registers a processor has; on one without any, the code is slower and as right.
Nothing here knows of graphs or states.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import lower_builtin, models, register_model, type_callable

WIDTH = 8

intrinsic: Callable[[Any], Any] = numba_intrinsic  # whose callers give no typing context


class SIMDType(types.Type):
    """The type of eight numbers of one dtype, in compiled code."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"SIMD({dtype})")


@register_model(SIMDType)
class _SIMDModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: SIMDType) -> None:
        models.PrimitiveModel.__init__(
            self, manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), WIDTH)
        )


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    vector = context.get_value_type(SIMDType(kind.dtype))
    return builder.bitcast(cgutils.gep_inbounds(builder, data, index), vector.as_pointer())


def _size(kind: Any) -> int:
    return int(kind.dtype.bitwidth) // 8


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """array[index : index + 8] of a flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, array, *arguments), align=_size(array))

    return SIMDType(array.dtype)(array, types.intp), generate


@intrinsic
def store(_: Any, array: Any, index: Any, value: Any) -> Any:
    """array[index : index + 8] = value, in a flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *place, lanes = arguments
        builder.store(lanes, _address(context, builder, array, *place), align=_size(array))
        return context.get_dummy_value()

    return types.void(array, types.intp, SIMDType(array.dtype)), generate


@intrinsic
def fill(_: Any, array: Any, number: Any) -> Any:
    """The same number eight times, in the dtype of a flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.cast(builder, arguments[1], number, array.dtype)
        return _everywhere(builder, value, context.get_value_type(signature.return_type))

    return SIMDType(array.dtype)(array, number), generate


@intrinsic
def item(_: Any, array: Any, index: Any) -> Any:
    """array[index] for an index that is not negative, without Numba's question whether it is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        return builder.load(cgutils.gep_inbounds(builder, data, arguments[1]))

    return array.dtype(array, types.intp), generate


@intrinsic
def spread(_: Any, array: Any, index: Any) -> Any:
    """array[index] eight times, for an index that is not negative."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        value = builder.load(cgutils.gep_inbounds(builder, data, arguments[1]))
        return _everywhere(builder, value, context.get_value_type(signature.return_type))

    return SIMDType(array.dtype)(array, types.intp), generate


def _everywhere(builder: Any, value: Any, vector: Any) -> Any:
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    first = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), first)


def _teach(function: Any, build: Callable[[Any, Any, Any], Any]) -> None:
    """Let compiled code apply a function of two arguments, such as an operator, to lanes."""

    def kinds(_: Any) -> Any:
        return lambda one, other: one if isinstance(one, SIMDType) and one == other else None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return build(builder, *arguments)

    type_callable(function)(kinds)
    lower_builtin(function, SIMDType, SIMDType)(generate)


def larger(one: Any, other: Any) -> Any:
    """The larger of each pair; a NaN stays one."""
    raise TypeError("SIMD vectors exist in compiled code only")


def _build_larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_unordered(">", one, other), one, other)


# "contract" lets a product and a sum become one instruction, where there is one.
_teach(operator.add, lambda builder, one, other: builder.fadd(one, other, flags=("contract",)))
_teach(operator.sub, lambda builder, one, other: builder.fsub(one, other, flags=("contract",)))
_teach(operator.mul, lambda builder, one, other: builder.fmul(one, other, flags=("contract",)))
_teach(operator.truediv, lambda builder, one, other: builder.fdiv(one, other))
_teach(larger, _build_larger)


def _fold(combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Eight numbers into one, halves with halves."""

    @intrinsic
    def fold(_: Any, lanes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value, width = arguments[0], WIDTH
            while width > 1:
                width //= 2
                halves = [
                    ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(start, start + width)))
                    for start in (0, width)
                ]
                low, high = (builder.shuffle_vector(value, value, half) for half in halves)
                value = combine(builder, low, high)
            return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

        return lanes.dtype(lanes), generate

    return fold


total = _fold(lambda builder, a, b: builder.fadd(a, b))
largest = _fold(_build_larger)


@intrinsic
def exp_negative(_: Any, lanes: Any) -> Any:
    """exp of numbers ≤ 0, to the last digit or two; what lies below the normal numbers becomes 0, NaN stays NaN.

    x = n·log 2 + r with |r| ≤ log(2)/2; the series of exp(r), times 2ⁿ put together from its bits.
    """
    single = lanes.dtype == types.float32
    least, bias, mantissa, terms = (-87.3, 127, 23, 7) if single else (-708.3, 1023, 52, 13)
    # The upper part of log 2 has so few digits that its product with n is exact.
    high = 0.693359375 if single else 0.6931471803691238
    low = -2.12194440054690583e-4 if single else 1.9082149292705877e-10

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(lanes)
        bits = ir.VectorType(ir.IntType(32 if single else 64), WIDTH)

        def number(value: float) -> Any:
            return ir.Constant(vector, [value] * WIDTH)

        x = arguments[0]
        inside = builder.fcmp_ordered(">=", x, number(least))
        y = builder.select(inside, x, number(least))
        # Rounded to an integer by adding, and taking off again, a number that leaves no digits for fractions.
        n = builder.fadd(builder.fmul(y, number(1 / math.log(2))), number(1.5 * 2**mantissa))
        n = builder.fsub(n, number(1.5 * 2**mantissa))
        fused = ("contract",)
        r = builder.fsub(y, builder.fmul(n, number(high), flags=fused), flags=fused)
        r = builder.fsub(r, builder.fmul(n, number(low), flags=fused), flags=fused)
        series = number(1 / math.factorial(terms))
        for k in reversed(range(terms)):
            series = builder.fadd(builder.fmul(series, r, flags=fused), number(1 / math.factorial(k)), flags=fused)
        exponent = builder.add(builder.fptosi(n, bits), ir.Constant(bits, [bias] * WIDTH))
        power = builder.bitcast(builder.shl(exponent, ir.Constant(bits, [mantissa] * WIDTH)), vector)
        outside = builder.select(builder.fcmp_unordered("uno", x, x), x, number(0.0))
        return builder.select(inside, builder.fmul(series, power), outside)

    return lanes(lanes), generate
