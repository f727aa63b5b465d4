"""How fast a paper-base model decodes: ours, and the same shape in other systems.

    python benchmarks/decode.py --system ours                          JSON lines on standard output
    python benchmarks/decode.py --system huggingface --device cuda     in an environment with transformers
    python benchmarks/decode.py --compare huggingface --peer-python peer/bin/python --output result.json
    python benchmarks/decode.py --compare ctranslate2 --dtype int8 --output result.json

Every system has random weights and 37 000 rows, reads sources of 25 positions, may not end early, and takes exactly
30 steps. In 8 bits (ours and CTranslate2) all products of the weights are. `--compare` runs both systems by turns, each
in a process of its own, because a machine's speed drifts: compare figures of one run only. Tokens are steps ×
sentences: beams do not count. Where other programs share the cores, the ratio of CPU time with `--threads 1` is the one
to trust.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

VOCAB_SIZE, SOURCE_POSITIONS, STEPS, LENGTH_PENALTY = 37_000, 25, 30, 0.6
EOS = 2
LAYERS, D_MODEL, D_FF, HEADS = 6, 512, 2048, 8  # paper-base; `--toy` makes them small
CASES = ["4x32", "4x1", "1x32", "1x1"]  # beam size x batch size

Run = Callable[[torch.Tensor], int]


def ours(beam_size: int, device: torch.device, dtype_name: str) -> Run:
    """Returns a function from sources (B, S) to the number of steps taken."""
    from transduce.config import DecodeConfig, ModelConfig
    from transduce.engines.allocator import enter_command
    from transduce.engines.torch import TorchEngine
    from transduce.model.transformer import Transformer

    shape = {"num_encoder_layers": LAYERS, "num_decoder_layers": LAYERS, "d_model": D_MODEL, "d_ff": D_FF}
    head = D_MODEL // HEADS
    config = ModelConfig(vocab_size=VOCAB_SIZE, num_heads=HEADS, d_k=head, d_v=head, **shape)
    model = Transformer(config).to(device)
    enter_command()  # its allocator is set as that of a command
    engine = TorchEngine(model, "float32" if dtype_name == "fp32" else "int8" if dtype_name == "int8" else "bfloat16")
    steps_taken = 0

    def without_eos(step: Callable[..., Any]) -> Callable[..., Any]:
        def step_without_eos(tokens_R: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
            nonlocal steps_taken
            steps_taken += 1
            logits_RV, state = step(tokens_R, state)
            logits_RV[:, EOS] = -torch.inf
            return logits_RV, state

        return step_without_eos

    for decoder in (engine.model, *(engine.graph_decoders or ())):  # on a GPU the latter take the steps
        decoder.step = without_eos(decoder.step)  # type: ignore[method-assign]

    def run(source_BS: torch.Tensor) -> int:
        nonlocal steps_taken
        steps_taken = 0
        sources = source_BS[:, 1:].tolist()  # the engine adds EOS
        # The last step may only end an output, so the limit on tokens is one less.
        extra = STEPS - 1 - len(sources[0])
        options = DecodeConfig(
            beam_size=beam_size,
            length_penalty=LENGTH_PENALTY,
            max_extra_tokens=extra,
            batch_size=len(sources),
        )
        engine.translate(sources, options)
        return steps_taken

    return run


def huggingface(beam_size: int, device: torch.device, dtype_name: str) -> Run:
    """The same for Hugging Face's Marian class and `generate`."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCAB_SIZE,
        d_model=D_MODEL,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        activation_function="relu",
        scale_embedding=True,
        static_position_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=EOS,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
        max_position_embeddings=512,
    )
    model = MarianMTModel(config).to(device, _DTYPES[dtype_name]).eval()
    options: dict[str, Any] = {"num_beams": beam_size, "do_sample": False}
    if beam_size > 1:
        options["length_penalty"] = LENGTH_PENALTY

    def run(source_BS: torch.Tensor) -> int:
        source = source_BS.to(device)
        with torch.inference_mode():
            output = model.generate(
                input_ids=source,
                attention_mask=torch.ones_like(source),
                min_new_tokens=STEPS,
                max_new_tokens=STEPS,
                **options,
            )
        return int(output.size(1)) - 1

    return run


def sockeye(beam_size: int, device: torch.device, dtype_name: str) -> Run:
    """The same for Sockeye 3.1.34; pip must be told to leave its old bounds on torch and numpy (`--no-deps`)."""
    from sockeye import beam_search, constants, data_io, encoder
    from sockeye import model as sockeye_model
    from sockeye import transformer as sockeye_transformer

    if beam_size == 1:
        raise SystemExit("Sockeye's greedy search is for one sentence at a time: leave its cases out with --cases.")
    longest = 200

    def stack() -> Any:
        return sockeye_transformer.TransformerConfig(
            model_size=512,
            attention_heads=8,
            feed_forward_num_hidden=2048,
            act_type="relu",
            num_layers=6,
            dropout_attention=0.0,
            dropout_act=0.0,
            dropout_prepost=0.0,
            positional_embedding_type="fixed",
            preprocess_sequence="",
            postprocess_sequence="drn",
            max_seq_len_source=longest,
            max_seq_len_target=longest,
            depth_key_value=512,
        )

    def embedding() -> Any:
        return encoder.EmbeddingConfig(vocab_size=VOCAB_SIZE, num_embed=512, dropout=0.0)

    data = data_io.DataConfig(
        data_statistics=None,
        max_seq_len_source=longest,
        max_seq_len_target=longest,
        num_source_factors=1,
        num_target_factors=1,
    )
    config = sockeye_model.ModelConfig(
        config_data=data,
        vocab_source_size=VOCAB_SIZE,
        vocab_target_size=VOCAB_SIZE,
        config_embed_source=embedding(),
        config_embed_target=embedding(),
        config_encoder=stack(),
        config_decoder=stack(),
    )
    model = sockeye_model.SockeyeModel(config, inference_only=True).eval()
    for parameter in model.parameters():  # some are left as the memory was
        if parameter.dim() > 1:
            torch.nn.init.xavier_uniform_(parameter)
        elif not bool(parameter.isfinite().all()):
            torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        model.output_layer.bias.zero_()
        model.output_layer.bias[[constants.EOS_ID, constants.PAD_ID]] = -1e4
    search = beam_search.get_search_algorithm(
        models=[model.to(device, _DTYPES[dtype_name])],
        beam_size=beam_size,
        device=device,
        output_scores=True,
        scorer=beam_search.CandidateScorer(LENGTH_PENALTY, 0.0, 0.0),
        greedy=False,
    )

    def run(source_BS: torch.Tensor) -> int:
        source = source_BS.to(device, torch.int32)
        with torch.inference_mode():
            counts = torch.full((len(source),), source.size(1), device=device)
            lengths = torch.stack([counts, torch.zeros_like(counts)], dim=1).int()
            limits = torch.full((len(source),), STEPS, dtype=torch.int32, device=device)
            result = search(source[:, :, None], lengths, None, limits)
        return int(result.best_word_indices.shape[2])

    return run


def ctranslate2(beam_size: int, device: torch.device, dtype_name: str) -> Run:
    """The same for CTranslate2 itself, fed with tokens."""
    import ctranslate2

    import ending_models
    from transduce.bundle import Bundle
    from transduce.engines.ctranslate2_model import convert

    kind = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}[dtype_name]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ending_models.make_model(folder / "model", "paper-base" if D_MODEL == 512 else "toy")
        bundle = Bundle.load(folder / "model")
        convert(bundle, folder / "converted", kind)
        threads = torch.get_num_threads()
        model = ctranslate2.Translator(
            str(folder / "converted"), compute_type=kind, intra_threads=threads, device=device.type
        )
        names = bundle.tokenizer.tokens()

    def run(source_BS: torch.Tensor) -> int:
        sources = [[*(names[token] for token in row[1:]), names[EOS]] for row in source_BS.tolist()]
        results = model.translate_batch(
            sources,
            beam_size=beam_size,
            length_penalty=LENGTH_PENALTY if beam_size > 1 else 0,
            min_decoding_length=STEPS,
            max_decoding_length=STEPS,
            max_batch_size=0,
        )
        return len(results[0].hypotheses[0])

    return run


_WARM_UPS = 3  # ours records a shape when it comes again; all systems get as many
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SYSTEMS = {"ours": ours, "huggingface": huggingface, "sockeye": sockeye, "ctranslate2": ctranslate2}


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Says what the figures were measured on."""
    machine: dict[str, Any] = {
        "device": str(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    for package in ("transformers", "sockeye", "ctranslate2"):
        with contextlib.suppress(PackageNotFoundError):
            machine[package] = version(package)
    if device.type == "cuda":
        machine["gpu"] = torch.cuda.get_device_name(device)
        machine["recorded_steps"] = os.environ.get("TRANSDUCE_CUDA_GRAPHS") != "0"  # of ours
    return machine


def measure(system: str, device_name: str, dtype_name: str, repeats: int, cases: list[str]) -> list[dict[str, Any]]:
    """Times the cases of one system."""
    torch.manual_seed(0)
    device = torch.device(
        "cuda" if device_name == "auto" and torch.cuda.is_available() else device_name.replace("auto", "cpu")
    )
    sources = torch.randint(5, VOCAB_SIZE, (64, SOURCE_POSITIONS))
    rows = []
    for case in cases:
        beam_size, batch_size = (int(number) for number in case.split("x"))
        run = SYSTEMS[system](beam_size, device, dtype_name)
        num_batches = 1 if batch_size > 8 else 4  # in one measurement
        for _ in range(_WARM_UPS if device.type == "cuda" else 1):
            run(sources[:batch_size])
        seconds, cpu_seconds = [], []
        for _ in range(repeats):
            start, cpu_start = time.perf_counter(), time.process_time()
            for batch in range(num_batches):
                first = batch * batch_size % 64
                steps = run(sources[first : first + batch_size])
                if steps != STEPS:
                    raise SystemExit(f"{system} took {steps} steps, not {STEPS}: the comparison is void.")
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append((time.perf_counter() - start) / num_batches)
            cpu_seconds.append((time.process_time() - cpu_start) / num_batches)
        median = statistics.median(seconds)
        row = {"system": system, "dtype": dtype_name, "case": case, "beam_size": beam_size, "batch_size": batch_size}
        row |= {"tokens_per_second": round(batch_size * STEPS / median, 1)}
        row |= {"milliseconds_per_step": round(median / STEPS * 1e3, 2)}
        row |= {"cpu_milliseconds_per_step": round(min(cpu_seconds) / STEPS * 1e3, 2), **describe_machine(device)}
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Runs ours and a peer by turns and returns all figures, with the ratio of medians for each case."""
    from transduce.reporting.machine import describe_machine

    rows: list[dict[str, Any]] = []
    common = ["--device", args.device, "--dtype", args.dtype, "--repeats", str(args.repeats)]
    common += ["--threads", str(args.threads), "--cases", ",".join(args.cases)]
    for turn in range(args.rounds):
        for python, system in ((sys.executable, "ours"), (args.peer_python, args.compare)):
            command = [python, __file__, "--system", system, *common]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            new = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            rows.extend(row | {"round": turn} for row in new)
            print(done.stdout, end="", flush=True)

    def figures(system: str, case: str, key: str) -> list[float]:
        return [row[key] for row in rows if row["system"] == system and row["case"] == case]

    def ratio(case: str) -> float:
        mine, theirs = (figures(system, case, "tokens_per_second") for system in ("ours", args.compare))
        return round(statistics.median(mine) / statistics.median(theirs), 2)

    def cpu_ratio(case: str) -> float:
        mine, theirs = (figures(system, case, "cpu_milliseconds_per_step") for system in ("ours", args.compare))
        return round(min(theirs) / min(mine), 2)

    medians = {
        system: {case: statistics.median(figures(system, case, "tokens_per_second")) for case in args.cases}
        for system in ("ours", args.compare)
    }
    ratios = {
        "tokens_per_second": {case: ratio(case) for case in args.cases},
        "cpu_time": {case: cpu_ratio(case) for case in args.cases},
    }
    print(json.dumps({"ours_over_" + args.compare: ratios}))
    return {
        "date": datetime.date.today().isoformat(),
        "what": "paper-base shape, random weights, 37 000 rows, 25 source positions, exactly 30 steps, "
        "cases are beam size x batch size, "
        "tokens per second; systems by turns",
        "machine": describe_machine() | {"load_average": round(os.getloadavg()[0], 2)},
        "median_tokens_per_second": medians,
        f"ours_over_{args.compare}": ratios,
        "rows": rows,
    }


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=SYSTEMS, default="ours")
    parser.add_argument("--compare", choices=[name for name in SYSTEMS if name != "ours"])
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has the peer installed")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each system in --compare")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda; default: %(default)s")
    parser.add_argument("--dtype", choices=["fp32", "bf16", "int8"], default="fp32")
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each case; the median counts")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=CASES, help="default: %(default)s")
    parser.add_argument("--toy", action="store_true", help="a small model, to try the script")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    if args.toy:
        global VOCAB_SIZE, LAYERS, D_MODEL, D_FF, HEADS
        VOCAB_SIZE, LAYERS, D_MODEL, D_FF, HEADS = 500, 1, 32, 64, 2
    if args.dtype == "int8" and {args.system, args.compare} & {"huggingface", "sockeye"}:
        parser.error("--dtype int8: ours and ctranslate2 only")
    if args.threads:
        torch.set_num_threads(args.threads)
    result = compare(args) if args.compare else measure(args.system, args.device, args.dtype, args.repeats, args.cases)
    if args.output:
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
