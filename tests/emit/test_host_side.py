"""Host functions of a CUDA file are read past: what is left has the same lines and columns, and what they launch is known."""

from __future__ import annotations

import pytest

from portakern.emit.host_side import device_side

pytestmark = pytest.mark.quick

KERNEL = "template <class T, int N> __global__ void k(T* x) { x[N] = T(1); }\n"


@pytest.mark.parametrize(
    "kept",
    [
        "__device__ float f(float x) { return x; }",
        "constexpr int twice(int n) { return 2 * n; }",
        "struct P { int n; P(int m) : n(m) {} };",
        "template <class T> struct Traits { static constexpr int n = 4; };",
        "const int N = 4, M = 5;",
        "__constant__ float table[4] = {1, 2, 3, 4};",
        "using f = float;",
        "namespace a::b { __device__ int g() { return 0; } }",
        "extern \"C\" { __global__ void h(float* x) { x[0] = '}'; } }",
        "#define HOST(x) { x }\n__device__ int after();",
    ],
)
def test_what_the_device_may_need_stays(kept: str) -> None:
    assert device_side(kept).text == kept


@pytest.mark.parametrize(
    "gone",
    [
        'int main() { const char* s = "}"; /* } */ return 0; }',
        "static void launch(float* x) { k<float, 1><<<1, 1>>>(x); }",
        "template <class T> void launch(T* x);",
        "std::vector<float> kept;",
        "torch::Tensor forward(torch::Tensor x) { return x; }",
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }',
        "static cudaStream_t stream = nullptr;",
        "void twice() { constexpr int n = 4; }",
    ],
)
def test_what_is_of_the_host_is_blanked_in_place(gone: str) -> None:
    before, after = "__device__ int f();\n", "\n__device__ int g();\n"
    text = device_side(before + gone + after).text
    assert text.startswith(before) and text.endswith(after) and len(text) == len(before + gone + after)
    assert not text[len(before) : -len(after)].strip()


@pytest.mark.parametrize(
    ("launcher", "instances"),
    [
        ("void f(float* x) { k<float, 4><<<1, 32>>>(x); }", ("k<float, 4>",)),
        ("void f(float* x) { constexpr int n = 4, m = 2; constexpr int both = n * 2; k<float, both><<<1, 32>>>(x); }", None),
        ("void f(float* x) { constexpr int n = 4; constexpr int both = n * 2; k<float, both><<<1, 32>>>(x); }",
         ("k<float, (4 * 2)>",)),
        ("void f(float* x) { using T = float; k<T, 1><<<1, 32>>>(x); }", ("k<float, 1>",)),
        ("template <class T> void f(T* x) { k<T, 1><<<1, 32>>>(x); }", None),
        ("void f(at::Tensor x) { DISPATCH(x, [&] { k<T, 1><<<1, 32>>>(x); }); }", None),
        ("#define W 8\nstruct S {}; enum { E }; void f(S* x) { k<S, W + E><<<1, 32>>>(x); }", ("k<S, W + E>",)),
        ("void f(int n, float* x) { if (n) k<float, 1><<<1, 32>>>(x); else k<float, 2><<<1, 32>>>(x); }",
         ("k<float, 1>", "k<float, 2>")),
    ],
)  # fmt: skip
def test_launched_instances_are_known_or_said_to_be_unknown(launcher: str, instances: tuple[str, ...] | None) -> None:
    side = device_side(KERNEL + launcher)
    if instances is None:
        assert not side.instances and len(side.unknown) == 1
    else:
        assert side.instances == instances and not side.unknown


def test_instances_are_asked_for_where_namespaces_are_seen() -> None:
    side = device_side(f"namespace a {{ namespace {{ {KERNEL} }} void f(float* x) {{ k<float, 4><<<1, 1>>>(x); }} }}")
    assert side.instances == ("k<float, 4>",) and "using namespace a;" in side.text.splitlines()[-1]


@pytest.mark.parametrize("text", ["", "{", "}", "(", ")}]", "}}};;", 'R"(', '"', "'", "namespace {", "template <", "#if 1\n{"])
def test_any_text_is_taken(text: str) -> None:
    side = device_side(text)
    assert len(side.text) == len(text) and side.text.count("\n") == text.count("\n")
