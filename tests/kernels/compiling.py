"""Compiles every kernel for a Hopper GPU, which need not be there.

Prints {name: {"shared": bytes of shared memory, "min_max": how maxima and minima of floats are taken}}.
"""

import importlib
import json
import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

F, B, I32, I64, U8 = "*fp32", "*bf16", "*i32", "*i64", "*u8"
SIZE, NUMBER = "i32", "fp32"
PLAIN = {
    ("hinges", "sum_both_sides"): ([F, I32, F, I32, SIZE, NUMBER], {"MASKED": True, "BLOCK": 128}),
    ("hinges", "max_both_sides"): ([F, I32, F, I32, SIZE, NUMBER], {"MASKED": True, "BLOCK": 128}),
    ("hinges", "sum_gradient"): ([F, I32, F, I32, F, F, SIZE, NUMBER, NUMBER], {"MASKED": True, "BLOCK": 128}),
    ("hinges", "max_gradient"): ([F, I32, F, I32, F, F, SIZE, NUMBER, NUMBER], {"MASKED": True, "BLOCK": 128}),
    ("rows", "scale"): ([F, F, F, SIZE, NUMBER], {"BLOCK": 1024}),
    ("rows", "scale_backward"): ([F, F, F, F, SIZE, NUMBER], {"BLOCK": 1024}),
    ("crops", "cut_rows"): ([U8, I64, I64, U8, SIZE], {"CUT_FIRST": True, "BLOCK": 256}),
}  # fmt: skip
GLUON = {
    ("recurrence", "pack"): (
        [F, I32, I32, I32, I32, B] + 5 * [SIZE],
        {"CAPTIONS": 128, "COLUMNS": 512},
    ),
    ("recurrence", "gru_forward"): (
        [B, B, F, F, I32, I32, B, B, F, I32, SIZE, SIZE],
        {"HIDDEN": 1024},
    ),
    ("recurrence", "gru_backward"): (
        [F, B, I32, I32, B, B, B, F, I32, SIZE, SIZE],
        {"HIDDEN": 1024},
    ),
    ("order", "scores_of_a_tile"): (3 * [F] + 3 * [SIZE], "LARGE"),
    ("order", "weighted_excess_of_a_tile"): (4 * [F] + 3 * [SIZE], "LARGE_BACKWARD"),
}


def main():
    facts = {}
    for source, kernels in ((ASTSource, PLAIN), (GluonASTSource, GLUON)):
        for (module, name), (types, constants) in kernels.items():
            home = importlib.import_module(f"vsepp.kernels.{module}")
            num_warps = 4
            if isinstance(constants, str):
                constants = getattr(home, constants).options()
                num_warps = constants.pop("num_warps")
            built = compiled(source, getattr(home, name), types, constants, num_warps)
            assert built.asm["cubin"]
            min_max = set(re.findall(r"\b(?:max|min)\.(?:\w+\.)*f\w+", built.asm["ptx"]))
            facts[f"{module}.{name}"] = {
                "shared": built.metadata.shared,
                "min_max": sorted(min_max),
            }
    print(json.dumps(facts))


def compiled(source, kernel, types, constants, num_warps):
    names = kernel.arg_names
    signature = dict(zip(names, types, strict=False)) | dict.fromkeys(constants, "constexpr")
    assert list(signature) == names, f"{kernel.__name__} has other arguments"
    constants = {(names.index(name),): value for name, value in constants.items()}
    aligned = {(n,): [["tt.divisibility", 16]] for n, kind in enumerate(types) if "*" in kind}
    return triton.compile(
        source(kernel, signature, constexprs=constants, attrs=aligned),  # as torch's tensors are
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": num_warps},
    )


if __name__ == "__main__":
    main()
