"""Run transformers of the package Transformers: generating, encoding, listening, training."""

from __future__ import annotations

import tempfile

import torch
import transformers
from kinds import Step, application, fill, integers, normal

transformers.logging.set_verbosity_error()


def generating(model: torch.nn.Module, vocabulary: int, tokens: int) -> Step:
    prompt = integers(vocabulary, 1, 32)
    model.eval()

    def step() -> float:
        made = model.generate(prompt, min_new_tokens=tokens, max_new_tokens=tokens, do_sample=False, pad_token_id=0)
        return float(made[0, -1])

    return step


@application("GPT-2 small, 16 tokens after 32", exact=False)  # the largest of random logits may be either of two
def gpt2_generates() -> Step:
    config = transformers.GPT2Config(bos_token_id=None, eos_token_id=None)
    return generating(fill(transformers.GPT2LMHeadModel(config)), config.vocab_size, 16)


def llama() -> torch.nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=4, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return fill(transformers.LlamaForCausalLM(config))


@application("Llama of 8 layers, 1024 wide, 16 tokens after 32", exact=False)
def llama_generates() -> Step:
    return generating(llama(), 16000, 16)


@application("the same in bfloat16", exact=False)
def llama_generates_bfloat16() -> Step:
    return generating(llama().bfloat16(), 16000, 16)


@application("BERT base encodes 8 texts of 128 tokens")
def bert_encodes() -> Step:
    model = fill(transformers.BertModel(transformers.BertConfig())).eval()
    text = integers(30000, 8, 128)

    def step() -> float:
        with torch.no_grad():
            return model(text).last_hidden_state.abs().mean().item()

    return step


@application("Whisper tiny writes 16 tokens of 30 seconds of sound", exact=False)
def whisper_writes() -> Step:
    config = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = fill(transformers.WhisperForConditionalGeneration(config)).eval()
    sound = normal(1, config.num_mel_bins, 3000)

    def step() -> float:
        made = model.generate(sound, min_new_tokens=16, max_new_tokens=16, do_sample=False)
        return float(made[0, -1])

    return step


class Texts(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": integers(2000, 64, seed=i), "labels": torch.tensor(i % 2)}


@application("Trainer: 8 steps of a small BERT that sorts texts", exact=False)  # the order of the texts
def trainer() -> Step:
    config = transformers.BertConfig(
        vocab_size=2000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512
    )

    def step() -> float:
        model = transformers.BertForSequenceClassification(config)
        with tempfile.TemporaryDirectory() as folder:
            settings = transformers.TrainingArguments(
                folder, per_device_train_batch_size=8, num_train_epochs=1, save_strategy="no", report_to=[],
                disable_tqdm=True, use_cpu=True,
            )  # fmt: skip
            return transformers.Trainer(model, settings, train_dataset=Texts()).train().training_loss

    return step


@application("GPT-2 of 6 layers, 384 wide, trains on 8 texts of 256 under bfloat16 autocast")
def gpt2_trains_bfloat16() -> Step:
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=256, n_embd=384, n_layer=6, n_head=6, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    model = fill(transformers.GPT2LMHeadModel(config)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = integers(256, 8, 256)

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(text, labels=text).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
