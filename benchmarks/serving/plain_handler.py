"""The service to compare with: a handler that calls bare CTranslate2 for each request as it comes.

    python benchmarks/serving/plain_handler.py TOKENIZER CONVERTED_MODEL COMPUTE_TYPE PORT BEAM_SIZE

It is what a short script around CTranslate2 does: one search for each request, in the thread pool of Starlette.
"""

import json
import sys

import ctranslate2
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tokenizers import Tokenizer


def build_app(tokenizer_path: str, model_path: str, compute_type: str, beam_size: int) -> Starlette:
    """Returns the application, with its model loaded: one thread of CTranslate2."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    model = ctranslate2.Translator(model_path, compute_type=compute_type, inter_threads=1, intra_threads=1)

    def translate(text: str) -> str:
        pieces = tokenizer.encode(text, add_special_tokens=False).tokens
        [result] = model.translate_batch([[*pieces, "</s>"]], beam_size=beam_size)
        return str(tokenizer.decode([tokenizer.token_to_id(piece) for piece in result.hypotheses[0]]))

    async def endpoint(request: Request) -> JSONResponse:
        text = json.loads(await request.body())["q"]
        return JSONResponse({"translatedText": await run_in_threadpool(translate, text)})

    async def ready(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Route("/translate", endpoint, methods=["POST"]), Route("/ready", ready)])


if __name__ == "__main__":
    app = build_app(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[5]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[4]), log_level="error")
