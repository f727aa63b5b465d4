"""The service to compare with: a handler that calls `Translator.translate` for each request as it comes.

    python benchmarks/serving/plain_handler.py MODEL QUANTIZATION PORT CONFIG

It is what a short script around a model does: one call for each request, in the thread pool of Starlette.
"""

import json
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from transduce import Translator
from transduce.serve.config import read_config


def build_app(model: str, quantization: str, config: str) -> Starlette:
    """Returns the application, with its model loaded: one thread of CTranslate2."""
    translator = Translator.load(model, engine="ctranslate2", quantization=quantization, threads=1)
    options = read_config(Path(config), [model]).text

    def translate(text: str) -> str:
        return translator.translate([text], text_options=options)[0]

    async def endpoint(request: Request) -> JSONResponse:
        text = json.loads(await request.body())["q"]
        return JSONResponse({"translatedText": await run_in_threadpool(translate, text)})

    async def ready(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Route("/translate", endpoint, methods=["POST"]), Route("/ready", ready)])


if __name__ == "__main__":
    uvicorn.run(
        build_app(sys.argv[1], sys.argv[2], sys.argv[4]), host="127.0.0.1", port=int(sys.argv[3]), log_level="error"
    )
