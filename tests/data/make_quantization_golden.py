"""Writes quantization_golden.json: what PyTorch's observers, fake quantization and quantized models make of given numbers.

Needs PyTorch 2.13, and is run by hand: `python tests/data/make_quantization_golden.py`. The models and numbers are those of
tests/quantization_cases.py, which tests/test_ao_quantization.py runs with Facula.
"""

import json
import runpy
import warnings
from pathlib import Path

import torch

HERE = Path(__file__).parent


def rounded(value):
    """Numbers with eight digits."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def main():
    warnings.simplefilter("ignore")  # PyTorch announces that torchao has its successors
    cases = runpy.run_path(str(HERE.parent / "quantization_cases.py"))["all_cases"]()
    results = {name: rounded(case(torch)) for name, case in cases.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items())
    (HERE / "quantization_golden.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
