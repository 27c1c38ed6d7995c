"""Row c of the main job: no pass, operation or kernel knows a name of a model.

Documentation may mention models; code may not. Strings count as code unless they are docstrings.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, DeepseekV2Config, DeepseekV3Config, LlamaConfig

ROOT = Path(__file__).parents[2]
FOLDERS = ("ir/ops", "passes", "quant_passes", "codegen")
SPELLED = (
    "quant_passes/checkpoint/ascend_",
    "quant_passes/checkpoint/expert_keys.py",
    "quant_passes/insertion/site_form.py",
)
"""What other tools call tensors in their files, and the presets, which choose tensors by name."""
CODE = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if not str(path.relative_to(ROOT)).startswith(SPELLED)
)
CONFIGS = (
    DeepseekV2Config(num_hidden_layers=1, first_k_dense_replace=0),
    DeepseekV3Config(num_hidden_layers=4),
    DeepseekV3Config(num_hidden_layers=1, q_lora_rank=None),
    LlamaConfig(num_hidden_layers=1),
)
ORDINARY = {"experts", "gate", "layers", "model", "norm", "weight"}
"""Parts of names that are words of the field, too; a path of two of them is found all the same."""


@dataclass(frozen=True)
class Names:
    """Names of the models.

    Attributes:
        parts: Every part of every parameter's name.
        classes: The class of every module.
    """

    parts: frozenset[str]
    classes: frozenset[str]


def names_of_models() -> Names:
    parts: set[str] = set()
    classes: set[str] = set()
    for config in CONFIGS:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        parts.update(part for key in model.state_dict() for part in key.split("."))
        classes.update(type(module).__name__ for module in model.modules())
    library = {name for name in classes if hasattr(torch.nn, name)}  # Linear is an operation, too
    return Names(
        frozenset(part for part in parts if not part.isdecimal()), frozenset(classes - library)
    )


def words(tree: ast.Module) -> Iterator[str]:
    """Yield every identifier, and every string that is no docstring."""
    documentation = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    documentation |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if node not in documentation:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.alias(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


@pytest.fixture(scope="module")
def names() -> Names:
    found = names_of_models()
    known = {"q_proj", "q_a_layernorm", "kv_b_proj", "gate_up_proj", "self_attn", "mlp"}
    assert known | ORDINARY <= found.parts
    assert {"DeepseekV2Attention", "DeepseekV3TopkRouter", "LlamaRMSNorm"} <= found.classes
    return found


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_word_of_the_code_is_a_name_of_a_model(path: Path, names: Names) -> None:
    forbidden = (names.parts - ORDINARY) | names.classes
    for text in words(ast.parse(path.read_text(encoding="utf-8"))):
        assert not forbidden & set(re.findall(r"\w+", text)), text
        assert len(names.parts & set(text.split("."))) < 2, text
