"""Bessel functions of orders 0 and 1: power series and Chebyshev series near 0, series in 1 / x far from it.

The Chebyshev coefficients were computed to 30 digits from the functions themselves, and end where they are below 1e-16 of the
first one.  Far from 0 they are those of P and Q in Hankel's form (Abramowitz and Stegun 9.2.5, 9.2.6, 9.2.9), and of
sqrt(x) exp(x) K(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from portakern.spec import elementwise as ew
from portakern.spec.traced import Traced
from portakern.torch_import.aten.special import chebyshev, given, polynomial
from portakern.torch_import.rules import RULES, Call, rule

# ---- J and Y ----------------------------------------------------------------------------------------------------------

_BORDER = 8.0

_J0 = (0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
       0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
       3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
       7.848696314479465e-11, -1.9438346867370173e-12, 4.1253205956344417e-14, -7.588508125453382e-16)  # fmt: skip
_J1 = (0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791, 0.022213639654966037,
       -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
       -9.521984756750436e-08, 3.687133759097148e-09, -1.1780266226958847e-10, 3.1601545803480036e-12,
       -7.221755239651792e-14, 1.4232144003515601e-15, -2.4441972916333584e-17)  # fmt: skip
"""Of J0(x), and of J1(x) / x, in x^2 / 32 - 1 up to 8."""

_Y0 = (0.03645469809116044, -0.2783237094075825, 0.2960499990207148, 0.09825508408187864, -0.10755155280627784,
       0.031799074084414514, -0.005161397105810715, 0.0005498525320039012, -4.1996983149420134e-05,
       2.4290361107923793e-06, -1.1049969793472957e-07, 4.06651736597911e-09, -1.2374148898289854e-10,
       3.1685725528945945e-12, -6.92695603243102e-14, 1.3086308625878363e-15)  # fmt: skip
_Y1 = (0.038300769852423776, -0.08182561412732826, -0.0248677076121964, 0.047967452752746984,
       -0.01852588451089802, 0.003680607687823511, -0.0004627254060293369, 4.06940026958087e-05,
       -2.6617695125295625e-06, 1.350602691325434e-07, -5.483524110336276e-09, 1.824508684122901e-10,
       -5.0706666365911296e-12, 1.1956162517587958e-13, -2.423162442712546e-15, 4.2681265130792384e-17)  # fmt: skip
"""Of what is left of Y0 and Y1 / x without 2 / pi (log(x / 2) J - 1 / x)."""

_P0 = (0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
       1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
       4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16)  # fmt: skip
_Q0 = (-0.015555854605337009, 6.838519942611649e-05, -7.414498411060647e-07, 1.7972457247968992e-08,
       -7.27191593686632e-10, 4.2201219046687385e-11, -3.206747420996635e-12, 3.006145125351706e-13,
       -3.336328185322427e-14, 4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
       -1.6686065214378146e-17, 3.1082440486738143e-18)  # fmt: skip
_P1 = (1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
       -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
       -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16)  # fmt: skip
_Q1 = (0.04677778706953532, -9.62772354915708e-05, 9.138615257955454e-07, -2.095978138408342e-08,
       8.229193327650554e-10, -4.686363688176945e-11, 3.5152187949686082e-12, -3.2643156743279e-13,
       3.5967765829165294e-14, -4.5612523950772974e-15, 6.508282957783384e-16, -1.0269147531823243e-16,
       1.767635548776479e-17)  # fmt: skip
"""Of P, and of x Q / 8, in 128 / x^2 - 1 from 8 on."""

_NEAR = ((_J0, _Y0), (_J1, _Y1))
_FAR = ((_P0, _Q0), (_P1, _Q1))


def _first_kind(a: Traced, order: int) -> Traced:
    """J of 0 <= a <= 8."""
    made = chebyshev(ew.subtract(ew.multiply(ew.square(a), 1 / 32), 1.0), _NEAR[order][0])
    return ew.multiply(made, a) if order else made


def _second_kind(a: Traced, order: int) -> Traced:
    """Y of 0 < a <= 8."""
    rest = chebyshev(ew.subtract(ew.multiply(ew.square(a), 1 / 32), 1.0), _NEAR[order][1])
    grows = ew.multiply(ew.log(ew.multiply(a, 0.5)), _first_kind(a, order))
    if order:
        grows, rest = ew.subtract(grows, ew.reciprocal(a)), ew.multiply(rest, a)
    return ew.add(ew.multiply(grows, 2 / math.pi), rest)


def _wave(a: Traced, order: int, second: bool) -> Traced:
    """J or Y of a >= 8: with sines and cosines of the argument itself, which lose no digits to a phase."""
    inverse = ew.divide(_BORDER, a)
    t = ew.subtract(ew.multiply(ew.square(inverse), 2.0), 1.0)
    p, q = (chebyshev(t, c) for c in _FAR[order])
    q = ew.multiply(q, inverse)
    sine, cosine = ew.sin(a), ew.cos(a)
    both, apart = ew.add(sine, cosine), ew.subtract(sine, cosine)
    if order:  # a quarter of a turn later
        both, apart = apart, ew.negative(both)
    made = ew.add(ew.multiply(p, apart), ew.multiply(q, both)) if second else ew.subtract(ew.multiply(p, both),
                                                                                          ew.multiply(q, apart))
    return ew.multiply(made, ew.rsqrt(ew.multiply(a, math.pi)))


def _by_parts(x: Traced, border: float, near: Callable[[Traced], Traced], far: Callable[[Traced], Traced]) -> Traced:
    return ew.where(ew.less_equal(x, border), near(ew.minimum(x, border)), far(ew.maximum(x, border)))


def _bessel_j(order: int) -> Callable[[Call, Traced], Traced]:
    def apply(call: Call, x: Traced) -> Traced:
        x = given(call, x)
        a = ew.abs(x)
        made = _by_parts(a, _BORDER, lambda v: _first_kind(v, order), lambda v: _wave(v, order, False))
        return ew.where(ew.less(x, 0.0), ew.negative(made), made) if order else made

    return apply


def _bessel_y(order: int) -> Callable[[Call, Traced], Traced]:
    def apply(call: Call, x: Traced) -> Traced:
        x = given(call, x)
        made = _by_parts(x, _BORDER, lambda v: _second_kind(v, order), lambda v: _wave(v, order, True))
        return _from_zero(x, made, -math.inf)

    return apply


def _from_zero(x: Traced, made: Traced, at_zero: float) -> Traced:
    """What is not defined below 0 and infinite there."""
    return ew.where(ew.less(x, 0.0), math.nan, ew.where(ew.equal(x, 0.0), at_zero, made))


RULES.update({f"aten.special_bessel_j{n}": _bessel_j(n) for n in (0, 1)})
RULES.update({f"aten.special_bessel_y{n}": _bessel_y(n) for n in (0, 1)})

# ---- I ----------------------------------------------------------------------------------------------------------------

_FAR_FROM = 12.0
"""Here the series in 1 / x begins, with an error below 1e-9; below it the power series has all digits."""


def power_series(a: Traced, order: int) -> Traced:
    """I0 or I1 of 0 <= a <= 12."""
    powers = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(32)]
    series = polynomial(ew.multiply(ew.square(a), 0.25), powers[::-1])
    return ew.multiply(ew.multiply(a, 0.5), series) if order else series


def _modified(x: Traced, order: int, scaled: bool) -> Traced:
    """I0 or I1, or these times exp(-|x|)."""
    a = ew.abs(x)
    near = ew.minimum(a, _FAR_FROM)
    series = power_series(near, order)
    series = ew.multiply(series, ew.exp(ew.negative(near))) if scaled else series
    far = ew.maximum(a, _FAR_FROM)
    terms = [1.0]
    for k in range(1, 13):
        terms.append(-terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    tail = ew.multiply(polynomial(ew.reciprocal(far), terms[::-1]), ew.rsqrt(ew.multiply(far, 2 * math.pi)))
    if not scaled:
        half = ew.exp(ew.multiply(far, 0.5))
        tail = ew.multiply(ew.multiply(tail, half), half)
    found = ew.where(ew.less(a, _FAR_FROM), series, tail)
    return ew.where(ew.less(x, 0.0), ew.negative(found), found) if order else found


def _bessel_i(order: int, scaled: bool) -> Callable[[Call, Traced], Traced]:
    return lambda call, x: _modified(given(call, x), order, scaled)


for _n in (0, 1):
    RULES.update(dict.fromkeys((f"aten.special_modified_bessel_i{_n}", "aten.i0" if _n == 0 else "aten.special_i1"),
                               _bessel_i(_n, False)))  # fmt: skip
    RULES[f"aten.special_i{_n}e"] = _bessel_i(_n, True)

# ---- K ----------------------------------------------------------------------------------------------------------------

_K0 = (-0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926, 2.286212103119452e-05,
       2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910624e-14,
       1.3744654358823678e-16)  # fmt: skip
_K1 = (0.7626501136694739, -0.3531559607765449, -0.12261118082265715, -0.006975723859639864,
       -0.0001730288957513052, -2.4334061415659684e-06, -2.213387630734726e-08, -1.4114883926335278e-10,
       -6.666901694199329e-13, -2.4274498505192958e-15)  # fmt: skip
"""Of what is left of K0 and x K1 without the term with log(x / 2), in x^2 / 2 - 1 up to 2."""

_K0_FAR = (1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
           1.3949813718876499e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
           8.574034017414227e-09, -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
           1.8559491149549264e-11, -4.514597883374519e-12, 1.1403405882073441e-12, -2.9800969231481784e-13,
           8.032890775068375e-14, -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15,
           5.5120559994043335e-16, -1.6782311257549006e-16)  # fmt: skip
_K1_FAR = (1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
           -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07, 5.7410841254500495e-08,
           -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11,
           -2.129967838427791e-11, 5.139639673482343e-12, -1.2891739609498229e-12, 3.348419666052243e-13,
           -8.976705182010146e-14, 2.4771544242195988e-14, -7.019837089214769e-15, 2.038703166239861e-15,
           -6.057047270643018e-16, 1.8380935752430455e-16)  # fmt: skip
"""Of sqrt(x) exp(x) K, in 4 / x - 1 from 2 on."""


def _third(x: Traced, order: int, scaled: bool) -> Traced:
    """K0 or K1, or these times exp(x)."""
    near, far = ((_K0, _K0_FAR), (_K1, _K1_FAR))[order]

    def close(v: Traced) -> Traced:
        rest = chebyshev(ew.subtract(ew.multiply(ew.square(v), 0.5), 1.0), near)
        grows = ew.multiply(ew.log(ew.multiply(v, 0.5)), power_series(v, order))
        made = ew.add(ew.divide(rest, v), grows) if order else ew.subtract(rest, grows)
        return ew.multiply(made, ew.exp(v)) if scaled else made

    def distant(v: Traced) -> Traced:
        made = ew.multiply(chebyshev(ew.subtract(ew.divide(4.0, v), 1.0), far), ew.rsqrt(v))
        return made if scaled else ew.multiply(made, ew.exp(ew.negative(v)))

    return _from_zero(x, _by_parts(x, 2.0, close, distant), math.inf)


def _bessel_k(order: int, scaled: bool) -> Callable[[Call, Traced], Traced]:
    return lambda call, x: _third(given(call, x), order, scaled)


RULES.update({f"aten.special_modified_bessel_k{n}": _bessel_k(n, False) for n in (0, 1)})
RULES.update({f"aten.special_scaled_modified_bessel_k{n}": _bessel_k(n, True) for n in (0, 1)})


@rule("aten.special_spherical_bessel_j0")
def _(call: Call, x: Traced) -> Traced:
    x = given(call, x)
    square = ew.square(x)
    near = polynomial(square, (1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0))
    far = ew.where(ew.equal(ew.abs(x), math.inf), 0.0, ew.divide(ew.sin(x), x))
    return ew.where(ew.less(ew.abs(x), 0.1), near, far)
