"""Models behind Ray Serve, batched as planned. `serve run serve_config.yaml` starts them.

A model's `factory` is `package.module:function`: called without arguments, it returns a torch module that takes a batch
of float32 samples of `shape` and returns one tensor, a row for each sample. It runs with all rights of the process.
Over HTTP each speaks the protocol of Triton and KServe (version 2), one sample a request.
"""

import asyncio
import importlib
import json
import math
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

HEADER_LENGTH = "Inference-Header-Content-Length"


class BadSampleError(ValueError):
    """A request that is no inference of one sample."""


@serve.deployment
class Model:
    """One replica: a model on its part of a GPU, or on the processor where there is none."""

    def __init__(self, name: str, factory: str, shape: list[int]) -> None:
        import torch

        self.name, self.shape = name, [int(size) for size in shape]
        module, _, function = factory.partition(":")
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = getattr(importlib.import_module(module), function)().eval().to(self.device)

    def reconfigure(self, batching: dict[str, float]) -> None:
        """Settings of batching in `user_config`, at the start and whenever it changes."""
        self.answers.set_max_batch_size(int(batching["max_batch_size"]))
        self.answers.set_batch_wait_timeout_s(batching["batch_wait_timeout_s"])

    @serve.batch(max_batch_size=1)  # the real one comes with user_config
    async def answers(self, samples: list[bytes]) -> list[bytes]:
        """Rows of outputs. In a thread, so that the next batch is gathered meanwhile."""
        return await asyncio.to_thread(self.run, samples)

    def run(self, samples: list[bytes]) -> list[bytes]:
        """One batch through the model."""
        import torch

        batch = torch.frombuffer(bytearray(b"".join(samples)), dtype=torch.float32).reshape(-1, *self.shape)
        with torch.inference_mode():
            rows = self.model(batch.to(self.device)).float().cpu()
        return [row.numpy().tobytes() for row in rows]

    async def __call__(self, request: Request) -> Response:
        """GET: what goes in and comes out. POST to /infer: an inference."""
        if request.method == "GET":
            inputs = [{"name": "input", "datatype": "FP32", "shape": [-1, *self.shape]}]
            return JSONResponse({"name": self.name, "platform": "ray_serve", "inputs": inputs, "outputs": []})
        try:
            sample = one_sample(await request.body(), request.headers.get(HEADER_LENGTH), math.prod(self.shape))
        except (BadSampleError, ValueError, KeyError, IndexError) as error:
            return JSONResponse({"error": f"is no inference of one sample: {error!r}"}, status_code=400)
        row = await self.answers(sample)
        about = {"name": "output", "datatype": "FP32", "shape": [1, len(row) // 4]}
        output = {**about, "parameters": {"binary_data_size": len(row)}}
        head = json.dumps({"model_name": self.name, "outputs": [output]}).encode()
        return Response(head + row, headers={HEADER_LENGTH: str(len(head))}, media_type="application/octet-stream")


def one_sample(body: bytes, header_length: str | None, size: int) -> bytes:
    """The bytes of the one sample of a request, sent as bytes after the header, or as numbers in it."""
    import array

    cut = int(header_length) if header_length else len(body)
    tensor = json.loads(body[:cut])["inputs"][0]
    sample = (
        body[cut:] if "binary_data_size" in tensor.get("parameters", {}) else array.array("f", tensor["data"]).tobytes()
    )
    if tensor["datatype"] != "FP32" or len(sample) != 4 * size:
        raise BadSampleError(
            f"input: must be one sample of {size} FP32 values, got {len(sample)} bytes of {tensor['datatype']}."
        )
    return sample


def build(args: dict[str, Any]) -> serve.Application:
    """The application of one model; `args` as in serve_config.yaml."""
    if missing := [key for key in ("factory", "shape") if args[key] == "FILL_IN"]:
        raise ValueError(f"{args['name']}: fill in args.{missing[0]} in serve_config.yaml.")
    return Model.bind(args["name"], args["factory"], args["shape"])
