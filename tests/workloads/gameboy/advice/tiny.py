"""A language model of half a megabyte that knows nothing: what it says by itself is noise, so what is heeded shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, INNER, CONTEXT = 2, 64, 4, 128, 4096
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Kinds of tokens, as llama.cpp numbers them."""
TEMPLATE = "{% for each in messages %}{{ each.role }}: {{ each.content }}\n{% endfor %}assistant:"


def write_model(path: Path, seed: int = 0) -> Path:
    """A Llama of random weights, by the `gguf` package."""
    import gguf

    tokens = _tokens()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    _add_weights(writer, len(tokens), np.random.default_rng(seed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tokens() -> list[tuple[bytes, int]]:
    special = [(b"<unk>", UNKNOWN), (b"<s>", CONTROL), (b"</s>", CONTROL)]
    singles = [(f"<0x{each:02X}>".encode(), BYTE) for each in range(256)]
    letters = [(chr(each).encode(), NORMAL) for each in range(33, 127)]
    return [*special, *singles, ("\u2581".encode(), NORMAL), *letters]


def _add_weights(writer: Any, tokens: int, random: np.random.Generator) -> None:
    def some(*shape: int) -> Any:
        return random.normal(0, 0.2, shape).astype(np.float32)

    writer.add_tensor("token_embd.weight", some(tokens, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output.weight", some(tokens, WIDTH))
    for layer in range(LAYERS):
        own = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{own}.{norm}.weight", np.ones(WIDTH, np.float32))
        for square in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{own}.{square}.weight", some(WIDTH, WIDTH))
        for wide in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"{own}.{wide}.weight", some(INNER, WIDTH))
        writer.add_tensor(f"{own}.ffn_down.weight", some(WIDTH, INNER))
