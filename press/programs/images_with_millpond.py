"""Millpond from Python with photographs: images_with_millpond.py decode|MODEL [PROVIDER], and images_with_millpond.py alone ADDRESS.

    decode, MODEL   millpond.Pipeline, a pipeline of .demo/r4/r4.toml; its model by an execution provider of ONNX Runtime
    alone           millpond.Client at ADDRESS, bytes in and the same bytes out
"""

import sys

import images

import millpond


def pipeline(name, provider):
    if provider is None:
        return millpond.Pipeline(images.FOLDER / "r4.toml", pipeline=name)
    model = images.settings()[name]
    # Each size of a batch is tried before the first call: a provider may compile the model for it.
    more = {"path": str(model["path"].resolve()), "providers": [provider], "warm_up": list(range(1, model["batch_size_max"] + 1))}
    if provider == "cuda":
        # Convolutions search an algorithm wherever the number of rows changes.
        more["batch_sizes"] = [model["batch_size_max"]]
    stage = {"pipeline": {"pipeline": name, "inputs": {"jpeg": "inputs.jpeg"}}}
    return millpond.Pipeline({"models": {name: model | more}, "pipelines": images.pipelines(name, "fit"), "stages": {"y": stage}})


def local(name, provider=None):
    pipe = pipeline(name, provider)
    images.run(name, lambda: lambda jpeg: pipe({"jpeg": jpeg})["y"])


def alone(address):
    def caller():
        client = millpond.Client(address)
        return lambda jpeg: client.call("r4 alone", {"data": jpeg})["data"]

    images.run_alone(caller)


if __name__ == "__main__":
    if sys.argv[1] == "alone":
        alone(sys.argv[2])
    else:
        local(*sys.argv[1:])
