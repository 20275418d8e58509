"""The examples of the README print what they say."""

import pytest
import safetensors.torch
import torch

from support.alone import ROOT
from support.documents import check, examples

EXAMPLES = examples(ROOT / "README.md")


def test_the_examples_of_the_readme_are_found():
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_readme_prints_what_its_comments_say(example, tmp_path):
    weights = torch.ones(2, 3, dtype=torch.bfloat16)
    safetensors.torch.save_file({"weights": weights, "bias": torch.ones(3)}, tmp_path / "model.safetensors")
    check(example, cwd=tmp_path)
