"""Public model architectures with random weights: real classes, small sizes.  Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Entry:
    """A model: the package it comes from, and what makes it with example inputs by place and by keyword."""

    name: str
    package: str
    make: Callable[[], Made]


# ---- Hugging Face ----------------------------------------------------------------------------------------------------

SMALL: Mapping[str, Any] = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                            "intermediate_size": 48, "max_position_embeddings": 64}  # fmt: skip
GROUPED: Mapping[str, Any] = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
IMAGES: Mapping[str, Any] = {"image_size": 32, "patch_size": 8}

TEXT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bert": ("BertForSequenceClassification", SMALL),
    "roberta": ("RobertaForMaskedLM", SMALL),
    "distilbert": ("DistilBertForQuestionAnswering", {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4,
                                                      "hidden_dim": 48}),
    "albert": ("AlbertForMaskedLM", {**SMALL, "embedding_size": 16}),
    "electra": ("ElectraForPreTraining", {**SMALL, "embedding_size": 16}),
    "deberta-v2": ("DebertaV2ForMaskedLM", {**SMALL, "relative_attention": True, "position_buckets": 8,
                                            "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm",
                                            "conv_kernel_size": 3}),
    "mpnet": ("MPNetForMaskedLM", SMALL),
    "xlnet": ("XLNetLMHeadModel", {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
    "funnel": ("FunnelForSequenceClassification", {"vocab_size": 99, "block_sizes": [1, 1], "d_model": 32, "n_head": 4,
                                                   "d_head": 8, "d_inner": 48}),
    "fnet": ("FNetForMaskedLM", {**SMALL, "use_tpu_fourier_optimizations": False}),
    "longformer": ("LongformerForMaskedLM", {**SMALL, "attention_window": 8}),
    "big_bird": ("BigBirdForMaskedLM", {**SMALL, "attention_type": "original_full"}),
    "modernbert": ("ModernBertForMaskedLM", {**SMALL, "pad_token_id": 0, "local_attention": 8}),
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "gpt_neo": ("GPTNeoForCausalLM", {"vocab_size": 99, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4,
                                      "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}),
    "gptj": ("GPTJForCausalLM", {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4,
                                 "n_positions": 64}),
    "gpt_neox": ("GPTNeoXForCausalLM", SMALL),
    "opt": ("OPTForCausalLM", {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "bloom": ("BloomForCausalLM", {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("MptForCausalLM", {"vocab_size": 99, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "falcon": ("FalconForCausalLM", {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "llama": ("LlamaForCausalLM", GROUPED),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 8}),
    "gemma": ("GemmaForCausalLM", {**GROUPED, "head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
    "gemma3_text": ("Gemma3ForCausalLM", {**GROUPED, "head_dim": 8, "sliding_window": 4,
                                          "layer_types": ["sliding_attention", "full_attention"]}),
    "phi": ("PhiForCausalLM", SMALL),
    "phi3": ("Phi3ForCausalLM", GROUPED),
    "stablelm": ("StableLmForCausalLM", GROUPED),
    "olmo2": ("Olmo2ForCausalLM", GROUPED),
    "cohere": ("CohereForCausalLM", GROUPED),
    "granite": ("GraniteForCausalLM", GROUPED),
    "starcoder2": ("Starcoder2ForCausalLM", GROUPED),
    "mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 4}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                                          "shared_expert_intermediate_size": 16}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {**GROUPED, "num_key_value_heads": 4, "n_routed_experts": 4,
                                              "num_experts_per_tok": 2,
                                              "moe_intermediate_size": 16, "kv_lora_rank": 8, "q_lora_rank": 8,
                                              "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8, "n_group": 2,
                                              "topk_group": 1, "first_k_dense_replace": 1}),
    "mamba": ("MambaForCausalLM", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "mamba2": ("Mamba2ForCausalLM", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8,
                                     "num_heads": 4, "head_dim": 16, "expand": 2, "n_groups": 2, "chunk_size": 4}),
    "rwkv": ("RwkvForCausalLM", {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32}),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", {**GROUPED, "lru_width": 32, "num_hidden_layers": 3, "head_dim": 8}),
}  # fmt: skip

BOTH: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", {"vocab_size": 99, "d_model": 32, "num_layers": 2, "num_heads": 4, "d_ff": 48,
                                           "d_kv": 8}),
    "bart": ("BartForConditionalGeneration", {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
                                              "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
                                              "decoder_ffn_dim": 48, "max_position_embeddings": 64}),
    "pegasus": ("PegasusForConditionalGeneration", {"vocab_size": 99, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1,
                                                    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
                                                    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}),
}  # fmt: skip

VISION: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "vit": ("ViTForImageClassification", {**SMALL, **IMAGES}, 32),
    "deit": ("DeiTForImageClassification", {**SMALL, **IMAGES}, 32),
    "beit": ("BeitForImageClassification", {**SMALL, **IMAGES, "use_relative_position_bias": True}, 32),
    "dinov2": ("Dinov2ForImageClassification", {**SMALL, **IMAGES}, 32),
    "swin": ("SwinForImageClassification", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2],
                                            "num_heads": [2, 4], "window_size": 4}, 32),
    "swinv2": ("Swinv2ForImageClassification", {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2],
                                                "num_heads": [2, 4], "window_size": 4}, 32),
    "convnext": ("ConvNextForImageClassification", {"hidden_sizes": [16, 24], "depths": [1, 1], "num_stages": 2}, 32),
    "convnextv2": ("ConvNextV2ForImageClassification", {"hidden_sizes": [16, 24], "depths": [1, 1], "num_stages": 2}, 32),
    "segformer": ("SegformerForSemanticSegmentation", {"hidden_sizes": [8, 16, 16, 24], "depths": [1, 1, 1, 1],
                                                       "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16}, 64),
    "mobilevit": ("MobileViTForImageClassification", {"image_size": 64, "hidden_sizes": [16, 24, 32],
                                                      "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32]}, 64),
    "poolformer": ("PoolFormerForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2,
                                                        "patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1]}, 32),
    "regnet": ("RegNetForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4,
                                                "embedding_size": 8}, 32),
    "levit": ("LevitForImageClassification", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 3, 4],
                                              "depths": [1, 1, 1], "key_dim": [8, 8, 8]}, 64),
    "pvt": ("PvtForImageClassification", {"image_size": 64, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1],
                                          "num_attention_heads": [1, 2, 2, 2]}, 64),
    "dpt": ("DPTForDepthEstimation", {**SMALL, "image_size": 32, "patch_size": 8, "num_hidden_layers": 4,
                                      "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 8, 16, 16],
                                      "fusion_hidden_size": 8, "is_hybrid": False}, 32),
}  # fmt: skip


def _ids(*shape: int) -> Any:
    import torch

    return torch.randint(3, 99, shape)


def _hf(kind: str, cls: str, options: Mapping[str, Any]) -> Any:
    _torchvision_models()  # which transformers imports where it is installed
    import transformers  # pyright: ignore[reportMissingImports]

    config = transformers.AutoConfig.for_model(kind, **options)
    return getattr(transformers, cls)(config).eval()


def _text(kind: str, cls: str, options: Mapping[str, Any], tokens: int = 12) -> Made:
    import torch

    masked = torch.ones(2, tokens, dtype=torch.long)
    masked[1, tokens - 3 :] = 0  # the second sentence is shorter
    return _hf(kind, cls, options), (), {"input_ids": _ids(2, tokens), "attention_mask": masked}


def _both(kind: str, cls: str, options: Mapping[str, Any]) -> Made:
    return _hf(kind, cls, options), (), {"input_ids": _ids(2, 12), "decoder_input_ids": _ids(2, 7)}


def _vision(kind: str, cls: str, options: Mapping[str, Any], size: int) -> Made:
    import torch

    return _hf(kind, cls, options), (), {"pixel_values": torch.randn(2, 3, size, size)}


def _whisper() -> Made:
    import torch

    model = _hf("whisper", "WhisperForConditionalGeneration", {
        "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 16,
        "max_source_positions": 20, "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 1})  # fmt: skip
    return model, (), {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": _ids(2, 7)}


def _clip() -> Made:
    import torch

    towers = {"text_config": {**SMALL, "projection_dim": 16, "eos_token_id": 2},
              "vision_config": {**SMALL, **IMAGES, "projection_dim": 16}}  # fmt: skip
    model = _hf("clip", "CLIPModel", {**towers, "projection_dim": 16})
    return model, (), {"input_ids": _ids(2, 12), "pixel_values": torch.randn(2, 3, 32, 32)}


def _siglip() -> Made:
    import torch

    model = _hf("siglip", "SiglipModel", {"text_config": dict(SMALL), "vision_config": {**SMALL, **IMAGES}})
    return model, (), {"input_ids": _ids(2, 64), "pixel_values": torch.randn(2, 3, 32, 32)}


SPEECH: Mapping[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
                             "conv_dim": (16, 16), "conv_stride": (4, 4), "conv_kernel": (8, 4), "vocab_size": 30,
                             "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2,
                             "num_feat_extract_layers": 2}  # fmt: skip


def _speech(kind: str, cls: str) -> Made:
    import torch

    return _hf(kind, cls, SPEECH), (), {"input_values": torch.randn(2, 640)}


def _detr() -> Made:
    import torch

    model = _hf("detr", "DetrForObjectDetection", {
        "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
        "backbone_config": {"model_type": "resnet", "hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8,
                            "layer_type": "basic", "out_features": ["stage2"]},
        "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_queries": 5})  # fmt: skip
    return model, (), {"pixel_values": torch.randn(1, 3, 64, 64)}


def _patchtst() -> Made:
    import torch

    model = _hf("patchtst", "PatchTSTForPrediction", {"num_input_channels": 3, "context_length": 32, "patch_length": 8,
                                                      "patch_stride": 8, "prediction_length": 8, "d_model": 16,
                                                      "num_attention_heads": 2, "ffn_dim": 32,
                                                      "num_hidden_layers": 2})  # fmt: skip
    return model, (), {"past_values": torch.randn(2, 32, 3)}


# ---- torchvision and timm --------------------------------------------------------------------------------------------

TORCHVISION: Mapping[str, int] = {
    "alexnet": 64, "vgg11_bn": 32, "resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 32,
    "squeezenet1_1": 64, "densenet121": 64, "googlenet": 64, "inception_v3": 96, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "shufflenet_v2_x1_0": 64, "mnasnet0_5": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64, "regnet_y_400mf": 64,
    "regnet_x_400mf": 64, "convnext_tiny": 64, "vit_b_32": 64, "swin_t": 64, "swin_v2_t": 64, "maxvit_t": 224,
}  # fmt: skip
SEGMENTATION = ("fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")

TIMM: Mapping[str, int] = {
    "mixer_s32_224": 224, "gmlp_ti16_224": 224, "resmlp_12_224": 224, "coat_lite_tiny": 224, "nf_resnet26": 64,
    "ghostnet_050": 64, "hrnet_w18_small": 64, "repvgg_a0": 64, "xcit_nano_12_p16_224": 224, "edgenext_xx_small": 64,
    "fastvit_t8": 64, "efficientformer_l1": 224, "poolformerv2_s12": 64, "eca_nfnet_l0": 64, "vovnet39a": 64,
    "cait_xxs24_224": 224,
    "convmixer_768_32": 64, "mobilenetv4_conv_small": 64, "skresnet18": 64, "res2net50_26w_4s": 64, "botnet26t_256": 256,
    "lambda_resnet26t": 256, "halonet26t": 256, "sequencer2d_s": 224, "volo_d1_224": 224,
    "tf_mobilenetv3_small_minimal_100": 64,
    "crossvit_tiny_240": 240, "twins_svt_small": 224, "visformer_tiny": 224, "dla34": 64, "selecsls42": 64, "resnest14d": 64,
}  # fmt: skip


def _torchvision(name: str, size: int) -> Made:
    import torch

    models = _torchvision_models()
    options: dict[str, Any] = {"image_size": size} if name.startswith("vit") else {}
    options |= {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return getattr(models, name)(weights=None, **options).eval(), (torch.randn(1, 3, size, size),), {}


def _segmentation(name: str) -> Made:
    import torch

    model = getattr(_torchvision_models().segmentation, name)(weights=None, weights_backbone=None, num_classes=5)
    return model.eval(), (torch.randn(1, 3, 64, 64),), {}


def _torchvision_models() -> Any:
    """Torchvision's models, also where its own operators do not load beside this torch: no model here uses them."""
    import torch

    try:
        import torchvision  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _torchvision_models.library = library  # type: ignore[attr-defined]  # it lives as long as this
        import torchvision  # pyright: ignore[reportMissingImports]
    return torchvision.models


def _timm(name: str, size: int) -> Made:
    import torch

    _torchvision_models()
    import timm  # pyright: ignore[reportMissingImports]

    return timm.create_model(name, pretrained=False).eval(), (torch.randn(1, 3, size, size),), {}


def enlivened(model: Any) -> Any:
    """``model`` with random numbers in all of its weights, of a size that keeps what flows through it about 1.

    What constructors give says little of whether a model is right: norms that scale by 1, biases and tables of zeros, outputs
    that vanish."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def noise(like: Any) -> Any:
        return torch.randn(like.shape, generator=generator)

    with torch.no_grad():
        for x in model.parameters():
            if x.ndim > 1:
                x.copy_(noise(x) / max(x[0].numel(), 1) ** 0.5)
            else:
                x.add_(0.1 * noise(x))
        for name, x in model.named_buffers():
            if name.endswith("running_mean"):
                x.copy_(0.1 * noise(x))
            elif name.endswith("running_var"):
                x.copy_(1 + 0.1 * noise(x).tanh())
    return model


def entries() -> list[Entry]:
    """Every model, by package."""
    made: list[tuple[str, str, Callable[..., Made], tuple[Any, ...]]] = [
        *((kind, "transformers", _text, (kind, *rest)) for kind, rest in TEXT.items()),
        *((kind, "transformers", _both, (kind, *rest)) for kind, rest in BOTH.items()),
        *((kind, "transformers", _vision, (kind, *rest)) for kind, rest in VISION.items()),
        ("whisper", "transformers", _whisper, ()), ("clip", "transformers", _clip, ()),
        ("siglip", "transformers", _siglip, ()), ("detr", "transformers", _detr, ()),
        ("patchtst", "transformers", _patchtst, ()),
        *((kind, "transformers", _speech, (kind, cls)) for kind, cls in
          (("wav2vec2", "Wav2Vec2ForCTC"), ("hubert", "HubertForCTC"), ("wavlm", "WavLMForCTC"))),
        *((name, "torchvision", _torchvision, (name, size)) for name, size in TORCHVISION.items()),
        *((name, "torchvision", _segmentation, (name,)) for name in SEGMENTATION),
        *((name, "timm", _timm, (name, size)) for name, size in TIMM.items()),
    ]  # fmt: skip
    return [Entry(f"{package}/{name}", package, lambda make=make, args=args: make(*args)) for name, package, make, args in made]
