"""The kinds of specs. Unknown keys and wrong types are errors; nothing is converted in silence."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from .values import (
    Currency,
    Duration,
    DurationValue,
    LabelName,
    Name,
    NonNegative,
    Number,
    PositiveDuration,
    Quantity,
    Ratio,
    RecordedName,
    Regex,
    Text,
    as_list,
    refused,
)

VERSION = "actuary/v1"
STAGES = ("foundation", "value", "actuarial")

Stage = Literal["foundation", "value", "actuarial"]
Severity = Literal["page", "ticket", "info"]


class Part(BaseModel):
    """Anything inside a spec."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Spec(Part):
    """What every kind has."""

    settings: ClassVar[bool] = False
    """Whether a user's spec is merged into the built-in one field by field; else it replaces it."""

    version: Literal["actuary/v1"]
    kind: str
    name: Name
    stage: Stage = "foundation"
    summary: Text | None = None
    disabled: Literal[False] = False


class Energy(Part):
    price_per_kwh: NonNegative
    pue: Annotated[Number, Field(ge=1)]


class Price(Part):
    model: Regex
    per_gpu_hour: NonNegative


class AssumedWatts(Part):
    model: Regex
    watts: NonNegative


class Quality(Part):
    metric: Text
    accuracy_weight: Ratio
    target_loss: NonNegative


class Economics(Spec):
    """What compute costs and what training is worth."""

    settings: ClassVar[bool] = True
    kind: Literal["Economics"]
    name: Literal["default"]
    currency: Currency
    energy: Energy
    prices: list[Price]
    default_price_per_gpu_hour: NonNegative
    price_includes_energy: bool
    assumed_watts: list[AssumedWatts]
    quality: Quality
    roi_reference: Annotated[Number, Field(gt=0)] | None


class Inventory(Spec):
    """Which GPUs are expected."""

    settings: ClassVar[bool] = True
    kind: Literal["Inventory"]
    name: Literal["default"]
    memory: PositiveDuration
    silence_tolerance: DurationValue = Duration("5m", 300.0)
    """How long the GPUs of a node count as there while no source says anything of the node."""
    gpu_util_ratio: Literal["auto", "ratio", "percent"] = "auto"
    """The unit of ``DCGM_FI_DEV_GPU_UTIL_RATIO``: DCGM 4.6 gives percent under this name."""


class Ledger(Spec):
    """How the ledger and the rules around it are evaluated."""

    settings: ClassVar[bool] = True
    kind: Literal["Ledger"]
    name: Literal["default"]
    evaluation_interval: PositiveDuration
    window: PositiveDuration
    busy_above: Ratio
    allocation_grace: DurationValue
    scrape_interval: PositiveDuration = Duration("30s", 30.0)
    """The slowest scrape or collection interval; no range of a rate is shorter than two."""


class InputSeries(Part):
    """A series of a rule test in promtool's notation."""

    series: Text
    values: Text


class ExpectedSample(Part):
    series: str
    value: Number


class AlertLabels(Part):
    """An alert that must fire, by its labels; severity, team and static ones are added."""

    labels: dict[str, str] = {}


class Expectation(Part):
    """What must hold at a moment of a test: samples of a query, or alerts that fire."""

    at: DurationValue
    query: Text | None = None
    samples: list[ExpectedSample] | None = None
    alert: Annotated[list[AlertLabels], BeforeValidator(as_list)] | None = None
    """One alert or a list; an empty one says that none may fire."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Expectation:
        asks_query = self.query is not None and self.samples is not None and self.alert is None
        asks_alert = self.query is None and self.samples is None and self.alert is not None
        if not asks_query and not asks_alert:
            raise refused(
                "expects nothing, or two things",
                "either `alert`, or `query` together with `samples`",
            )
        return self


class RuleTest(Part):
    """A rule unit test; ``interval`` is the distance of the input's samples."""

    name: Text
    interval: PositiveDuration = Duration("30s", 30.0)
    evaluation_interval: PositiveDuration | None = None
    """How often the rules are evaluated; ``interval`` when None. promtool knows one for all."""
    input: list[InputSeries]
    expect: Annotated[list[Expectation], Field(min_length=1)]


class Tested(Spec):
    """A kind that yields rules."""

    tests: list[RuleTest] = []
    external: list[Text] = []
    """Series of other exporters that the spec reads, which the catalogue cannot know."""


class RecordedSeries(Part):
    """One recording rule; ``unit`` and ``help`` describe a record that is the user's own."""

    record: Text
    expr: Text
    labels: dict[LabelName, str] = {}
    unit: str | None = None
    help: Text | None = None


class Recording(Tested):
    """Recording rules that belong together."""

    kind: Literal["Recording"]
    interval: PositiveDuration | None = None
    rules: Annotated[list[RecordedSeries], Field(min_length=1)]

    @field_validator("tests")
    @classmethod
    def _expect_no_alerts(cls, tests: list[RuleTest]) -> list[RuleTest]:
        if any(e.alert is not None for test in tests for e in test.expect):
            raise refused("expect an alert, which a Recording has not", "`query` and `samples`")
        return tests


class Alerting(Tested):
    """What every alert carries."""

    severity: Severity
    team: Name
    labels: dict[LabelName, str] = {}
    summary: Text
    description: Text
    runbook: Name

    @property
    def alert_name(self) -> str:
        """``gpu-vanished`` as ``GpuVanished``."""
        return "".join(word.capitalize() for word in self.name.split("-"))


class Alert(Alerting):
    """An alert with its expression."""

    kind: Literal["Alert"]
    interval: PositiveDuration | None = None
    expr: Text
    for_: Annotated[DurationValue, Field(alias="for")] = Duration("0s", 0.0)
    keep_firing_for: DurationValue | None = None


class Deviation(Part):
    """How far from its own history is anomalous; all three must be exceeded."""

    sensitivity: Annotated[Number, Field(gt=0)] = 10.0
    """In units of the baseline's scale, its mean absolute residual."""
    relative: Quantity = 0.0
    """As a share of the baseline's mean."""
    absolute: Quantity = 0.0
    """In the unit of the series."""


class ValidRange(Part):
    """Values outside are data faults: they are neither learnt nor alerted on."""

    min: Quantity | None = None
    max: Quantity | None = None


class Baseline(Alerting):
    """A dynamic baseline of a recorded series, and the alert on leaving it."""

    kind: Literal["Baseline"]
    series: RecordedName
    by: Annotated[list[LabelName], Field(min_length=1)]
    direction: Literal["above", "below", "both"] = "both"
    seasonality: list[Literal["day", "week"]] = []
    deviation: Deviation = Deviation()
    range: ValidRange = ValidRange()
    warm_up: DurationValue = Duration("6h", 21600.0)
    accept_after: DurationValue = Duration("12h", 43200.0)
    unit: str | None = None
    description: Text = (
        "The score is {{ $value | humanize }}; 1 is the edge of what its own history makes normal."
    )
    for_: Annotated[DurationValue, Field(alias="for")] = Duration("5m", 300.0)
    keep_firing_for: DurationValue | None = Duration("10m", 600.0)

    @property
    def alert_name(self) -> str:
        """``step-time`` as ``StepTimeAnomaly``: the name says what is watched, not what happened."""
        return f"{super().alert_name}Anomaly"


class Receiver(Part):
    """Where notifications go; without an address they stay in Alertmanager's own page."""

    url: Text | None = None
    url_file: Text | None = None
    """A file on Alertmanager's host that holds the address, where it is a secret."""

    @model_validator(mode="after")
    def _at_most_one(self) -> Receiver:
        if self.url is not None and self.url_file is not None:
            raise refused("has two addresses", "`url` or `url_file`, not both")
        return self


class TeamRoute(Part):
    """The receivers of a team's alerts; ``page`` overrides ``receiver`` for pages."""

    receiver: Name
    page: Name | None = None


class RepeatIntervals(Part):
    """After how long an alert that still fires is notified again."""

    page: PositiveDuration = Duration("1h", 3600.0)
    ticket: PositiveDuration = Duration("12h", 43200.0)
    info: PositiveDuration = Duration("1d", 86400.0)


class Inhibition(Part):
    """While an alert fires, others of the same ``equal`` labels are not notified."""

    source: Annotated[list[Name], Field(min_length=1)]
    target: Annotated[list[Name], Field(min_length=1)]
    equal: Annotated[list[LabelName], Field(min_length=1)]


class Route(Spec):
    """Who is notified of what, and how often."""

    kind: Literal["Route"]
    name: Literal["default"]
    runbook_base: Text
    """The address under which the runbooks stand."""
    group_by: Annotated[list[LabelName], Field(min_length=1)]
    group_wait: DurationValue = Duration("30s", 30.0)
    group_interval: PositiveDuration = Duration("5m", 300.0)
    repeat: RepeatIntervals = RepeatIntervals()
    receivers: Annotated[dict[Name, Receiver], Field(min_length=1)]
    default_receiver: Name
    teams: dict[Name, TeamRoute] = {}
    inhibit: list[Inhibition] = []


KINDS: dict[str, type[Spec]] = {
    "Economics": Economics,
    "Inventory": Inventory,
    "Ledger": Ledger,
    "Recording": Recording,
    "Alert": Alert,
    "Baseline": Baseline,
    "Route": Route,
}
