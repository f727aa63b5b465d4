"""Our own protocol: what every head of a model attends to, as the data of the explorer."""

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from transduce.serve.requests import TranslationRequest
from transduce.serve.web.backend import AUTO, Backend
from transduce.serve.web.own import client_key
from transduce.serve.web.own_fields import read_plain_fields, with_domain
from transduce.serve.web.refusals import bad_request
from transduce.serve.web.request_body import read_fields


@dataclass(frozen=True, kw_only=True)
class AttentionFields:
    """A checked request for the attention of a pair."""

    text: str
    target: str
    source: str = AUTO
    translation: str | None = None  # None: what the model writes
    domain: str | None = None  # as of a translation


class OwnAttention:
    """The route of attention."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def routes(self) -> list[Route]:
        """Returns the routes."""
        return [Route("/api/attention", self.attention, methods=["POST"])]

    async def attention(self, request: Request) -> Response:
        """POST /api/attention: the data of the explorer for a sentence and its translation."""
        key = client_key(self._backend, request)
        config = self._backend.config
        fields = await read_fields(request, config.limits.body_bytes)
        given = read_plain_fields(fields, AttentionFields, config, counted=("text", "translation"))
        target = self._backend.target_language(given.target)
        if target is None:
            raise bad_request(f"The language '{given.target[:100]}' is not supported.", "unknown_language")
        [guess] = await self._backend.sources_of([given.text], given.source, target)
        one = TranslationRequest(
            texts=[given.text],
            source=guess.language,
            target=target,
            text_options=with_domain(config.text, given.domain),
            priority=key.request_priority,
        )
        found = await self._backend.attention(request, key, one, given.translation)
        from transduce.inspection.explorer import explorer_data  # imported here, as NumPy is slow to import

        data = await asyncio.to_thread(explorer_data, found, f"{guess.language}→{target}")
        return JSONResponse(data)
