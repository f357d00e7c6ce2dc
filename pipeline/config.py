"""params.yaml, read and checked as a whole before anything runs."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from noracl import EWCSettings, FisherSettings, GrowthSettings, OptimisationSettings, Settings
from pipeline import sections
from pipeline.paths import PARAMS
from pipeline.plain_yaml import ParamsError, Reader, read
from pipeline.readings import changed, problems
from pipeline.sections import Benchmark, FileName, RowName, Section, Shapes

PERMUTED = "permuted_mnist"  # the benchmark of the stress tests, the sensitivity study, the costs and the transfer
ON_FEATURES = "cifar10_128"  # the benchmark whose variants are the image sizes that were compared
#: What ``noracl`` holds; the other settings of growth belong into ``heuristics``.
RULE = ("trigger", "init", "gamma", "epsilon", "percentile", "cooldown", "scale", "tau_start", "ed_layers", "boost")
#: More than this is a slip of the pen, or fills the memory.
MOST_SETTINGS = {("optimisation", f"epochs_{when}"): 10**4 for when in ("first", "later")}
MOST_SETTINGS |= {("growth", f"{rule}_neurons"): 4096 for rule in ("fsat", "fixed", "scheduled", "loss")}
PARTS = {"optimisation": OptimisationSettings, "fisher": FisherSettings, "ewc": EWCSettings}

for _kind in (Settings, GrowthSettings, *PARTS.values()):
    setattr(_kind, "__pydantic_config__", sections.STRICT)  # noqa: B010
SETTINGS = TypeAdapter(Settings)


def merged(into: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with other values, sections inside sections merged likewise."""
    both = {
        key: merged(into[key], value) if isinstance(value, dict) and isinstance(into.get(key), dict) else value
        for key, value in changes.items()
    }
    return {**into, **both}


class Params(Section):
    """All of params.yaml."""

    seeds: sections.Unique[sections.Seed]
    data: sections.Data
    encoder: sections.Encoder
    training: dict[str, Any]
    noracl: dict[str, Any]
    heuristics: dict[str, Any]
    networks: Annotated[
        dict[FileName, Annotated[dict[RowName, Shapes], Field(min_length=1), AfterValidator(sections.without_ours)]],
        Field(min_length=1),
    ]
    benchmarks: Annotated[dict[FileName, Benchmark], Field(min_length=1)]
    image_sizes: sections.ImageSizes
    stress: sections.Stress
    ablations: sections.Ablations
    sensitivity: sections.Sensitivity
    reading_seeds: sections.Unique[sections.Seed]
    readings: dict[FileName, sections.Reading]
    beyond: sections.Beyond
    beyond_stress: sections.BeyondStress
    theory: sections.Theory
    official: sections.Official
    tolerances: sections.Tolerances
    compute: sections.Compute

    @model_validator(mode="after")
    def _names_exist(self) -> "Params":
        datasets = [*sections.PIXELS, *(f"cifar10_{name}" for name in self.encoder.images)]
        for name, one in self.benchmarks.items():
            for key, allowed in (("data", datasets), ("networks", list(self.networks))):
                if (value := getattr(one, key)) not in allowed:
                    raise ValueError(f"benchmarks.{name}.{key} must be one of {', '.join(allowed)}, got {value}")
        if unknown := set(self.ablations.benchmarks) - set(self.benchmarks):
            raise ValueError(f"ablations.benchmarks names {', '.join(sorted(unknown))}, which benchmarks does not have")
        if other := sorted(name for name in self.ablations.benchmarks if self.benchmarks[name].data != "mnist"):
            raise ValueError(f"ablations.benchmarks names {', '.join(other)}, which is not on mnist")
        for needed, kind, users in (
            (PERMUTED, "permuted", "stress, sensitivity"),
            (ON_FEATURES, "split", "image_sizes"),
        ):
            if needed not in self.benchmarks or self.benchmarks[needed].stream.kind != kind:
                raise ValueError(f"benchmarks.{needed} must be a {kind} stream: {users} are its variants")
        if self.image_sizes.seed not in self.seeds:
            raise ValueError(f"image_sizes.seed must be one of seeds, got {self.image_sizes.seed}")
        if unknown := set(self.image_sizes.images) - set(self.encoder.images):
            raise ValueError(f"image_sizes.images names {', '.join(sorted(unknown))}, which encoder.images lacks")
        heads = self.networks[self.benchmarks[ON_FEATURES].networks]
        if unknown := set(self.image_sizes.heads) - set(heads):
            raise ValueError(f"image_sizes.heads names {', '.join(sorted(unknown))}, which {ON_FEATURES} does not have")
        self._names_of_questions_exist()
        return self

    def _names_of_questions_exist(self) -> None:
        asked, stressed = self.beyond, list(self.stress.static)
        networks = {name: list(self.networks[one.networks]) for name, one in self.benchmarks.items()}
        named = [("controls.benchmarks", name, list(networks)) for name in getattr(asked.controls, "benchmarks", ())]
        on_mnist = [name for name, one in self.benchmarks.items() if one.data == "mnist"]
        named += [("fashion.benchmarks", name, on_mnist) for name in getattr(asked.fashion, "benchmarks", ())]
        for name, network in getattr(asked.bounds, "networks", {}).items():
            named.append(("bounds.networks", name, list(networks)))
            named.append((f"bounds.networks.{name}", network, networks.get(name, [network])))
        if asked.strengths is not None:
            named.append(("strengths.network", asked.strengths.network, networks[PERMUTED]))
        for key in ("upkeep_strengths", "upkeep"):
            own = getattr(self.beyond_stress, key)
            named += [] if own is None else [(f"{key}.network", own.network, stressed)]
        for key, name, allowed in named:
            if name not in allowed:
                part, _ = self.question(key.partition(".")[0])
                raise ValueError(f"{part}.{key} must be one of {', '.join(allowed)}, got {name}")

    def question(self, name: str) -> tuple[str, Any]:
        """The section and stage that a question beyond the paper belongs to, and what is asked there, if anything."""
        part = "beyond" if name in sections.Beyond.model_fields else "beyond_stress"
        return part, getattr(getattr(self, part), name)

    @cached_property
    def base(self) -> dict[str, Settings]:
        """The library's settings of each benchmark, for NORACL's smallest network."""
        return {name: self._settings(name) for name in self.benchmarks}

    def _settings(self, name: str) -> Settings:
        own = self.benchmarks[name]
        growth = {**self.noracl, **self.heuristics, **own.noracl}
        data = {**merged(self.training, own.training), "hidden": own.start[0], "growth": growth}
        try:
            settings = SETTINGS.validate_json(json.dumps(data))
        except ValidationError as error:
            found = [_explain(problem, data, self._where(name)) for problem in error.errors(include_url=False)]
            raise _unusable(found) from None
        for (part, field), most in MOST_SETTINGS.items():
            if (value := getattr(getattr(settings, part), field) or 0) > most:
                place = self._where(name)([part, field])
                raise _unusable([f"  {place} must be at most {most}, got {value}"])
        return settings

    def _where(self, name: str) -> Callable[[list[str]], str]:
        """Where in params.yaml a setting of a benchmark is written, given its path in the library's settings."""
        own = self.benchmarks[name]

        def where(path: list[str]) -> str:
            if path[:1] == ["growth"]:
                section = "noracl" if len(path) == 1 or path[1] in RULE else "heuristics"
                return ".".join(
                    [f"benchmarks.{name}.noracl" if set(path[1:]) & set(own.noracl) else section, *path[1:]]
                )
            place: Any = own.training
            for part in path:
                place = place.get(part, KeyError) if isinstance(place, dict) else KeyError
            return ".".join(["training" if place is KeyError or not path else f"benchmarks.{name}.training", *path])

        return where

    def under(self, reading: str) -> "Params":
        """These params with the changes of a reading."""
        return _built(changed(self.model_dump(mode="json"), self.readings[reading].changes))

    def settings(self, benchmark: str, hidden: tuple[int, ...], **growth: Any) -> Settings:
        """The library's settings for a run; ``growth`` overrides parts of the growth rule."""
        base = self.base[benchmark]
        return replace(base, hidden=hidden, growth=replace(base.growth, **growth))


def parse(text: str) -> Params:
    """Params from the text of params.yaml; ParamsError with every wrong key otherwise."""
    data = read(text)
    if not isinstance(data, dict):
        raise ParamsError("params.yaml must hold keys and values, as in the committed version")
    _read_unquoted_true(data)
    params = _built(data)
    if wrong := problems(data, {name: one.changes for name, one in params.readings.items()}):
        raise _unusable(wrong)
    for name in params.readings:
        try:
            params.under(name)
        except ParamsError as error:  # what is wrong with its own values; others may be changed for an experiment
            if own := [key for key in params.readings[name].changes if key in str(error)]:
                raise ParamsError(f"readings.{name}.changes.{own[0]}: with this, {error}") from None
    return params


def _built(data: dict[str, Any]) -> Params:
    """Params from plain data, all checked but the readings."""
    try:
        params = Params.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise _unusable(_explain(one, data, ".".join) for one in error.errors(include_url=False)) from None
    _nothing_is_missing(params)
    assert params.base
    _ablations_fit(params)
    return params


def _unusable(found: Iterable[str]) -> ParamsError:
    return ParamsError("\n".join(["params.yaml cannot be used:", *list(found)[:30]]))


def _ablations_fit(params: Params) -> None:
    """What is checked for a trigger only when it is chosen holds for those of the ablation study as well."""
    for benchmark in params.ablations.benchmarks:
        for trigger in params.ablations.trigger:
            try:
                params.settings(benchmark, params.benchmarks[benchmark].start[0], trigger=trigger)
            except ValueError as error:
                name, _, rest = str(error).removeprefix("growth.").partition(" ")
                place = f"{params._where(benchmark)(['growth', name])} {rest}, for {trigger!r} on {benchmark}"
                raise _unusable([f"  {place}"]) from None


def _read_unquoted_true(data: dict[str, Any]) -> None:
    """`-S training.fisher.labels=true` writes a truth value where the name of a kind of labels is meant."""
    benchmarks = data.get("benchmarks")
    for section in (data, *(benchmarks.values() if isinstance(benchmarks, dict) else ())):
        with suppress(KeyError, TypeError):
            if section["training"]["fisher"]["labels"] is True:
                section["training"]["fisher"]["labels"] = "true"


def _nothing_is_missing(params: Params) -> None:
    """Every setting of the library is written down: none is decided by a default that nobody sees."""
    expected: dict[str, tuple[dict[str, Any], set[str]]] = {
        "training": (params.training, {f.name for f in fields(Settings)} - {"hidden", "growth"}),
        "noracl": (params.noracl, set(RULE)),
        "heuristics": (params.heuristics, {f.name for f in fields(GrowthSettings)} - set(RULE)),
    }
    for part, kind in PARTS.items():
        if isinstance(section := params.training.get(part), dict):
            expected[f"training.{part}"] = (section, {f.name for f in fields(kind)})
    wrong = []
    for place, (section, names) in expected.items():
        wrong += [f"  {place}.{name}: this key is missing" for name in sorted(names - set(section))]
        wrong += [f"  {place}.{name}: unknown key" for name in sorted(set(section) - names)]
    for benchmark, own in params.benchmarks.items():
        named = sorted({"hidden", "growth"} & set(own.training))
        wrong += [f"  benchmarks.{benchmark}.training.{name}: unknown key" for name in named]
    if wrong:
        raise _unusable(wrong)


def _explain(problem: Any, data: Any, where: Callable[[list[str]], str]) -> str:
    """A line about one problem; of pydantic's path only what is a key here, not the names of the kinds it tried."""
    path = []
    for part in problem["loc"]:
        if part in (data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()):
            path.append(str(part))
            data = data[part]
    if problem["type"] == "missing":
        return f"  {where([*path, str(problem['loc'][-1])])}: this key is missing"
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"  {where(path)}: unknown key"
    message: str = problem["msg"].removeprefix("Value error, ")
    names = message.split()[0].split(".") if " must " in message else [""]
    if isinstance(problem["input"], dict) and names[0] in problem["input"]:  # the library names the field itself
        return f"  {where([*path, *names])}{message.removeprefix('.'.join(names))}"
    given = "" if isinstance(problem["input"], dict) else f" (got {str(problem['input'])[:80]!r})"
    return f"  {where(path) if path else 'top level'}: {message}{given}"


def load(path: Path = PARAMS) -> Params:
    """Params from the file."""
    try:
        if not path.is_file() and path.exists():  # opening a pipe would wait for whoever writes to it
            raise OSError("it is no file")
        with path.open(encoding="utf-8") as file:
            text = file.read(Reader.SIZE + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path.name} cannot be read: {error}") from None
    return parse(text)
