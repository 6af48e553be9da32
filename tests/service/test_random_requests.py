"""Random requests drawn from the OpenAPI description, right ones and wrong ones."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serving import NUM_PHOTOS, Served
from vsepp.service.app import create_app

NUM_REQUESTS = 1000
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.slow
def test_a_thousand_random_requests_are_answered_as_described(collection):
    schema = schemathesis.openapi.from_dict(create_app(collection).openapi())
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 7
    plan = [
        (operation, mode)
        for operation in operations
        for mode in GenerationMode
        if mode.is_positive or operation.definition.raw.get("parameters")  # or nothing can be wrong
    ]
    each = -(-NUM_REQUESTS // len(plan))
    seen = Counter()
    served = Served(collection)
    try:
        for operation, mode in plan:
            seen += _asked(served.url, operation, mode, each)
    finally:
        served.stop()
    assert sum(seen.values()) >= NUM_REQUESTS
    assert not [status for status in seen if status >= 500]
    assert {200, 404, 422} <= set(seen)


def _asked(url, operation, mode, count):
    seen = Counter()

    @given(operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case):
        key = str((case.path_parameters or {}).get("key", ""))
        if key.isascii() and key.isdecimal() and int(key) % 2:
            case.path_parameters["key"] = str(1 + int(key) % NUM_PHOTOS)  # one that there is
        answer = case.call(base_url=url.rstrip("/"))
        seen[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    while sum(seen.values()) < count:  # operations without parameters run out of examples
        ask()
    return seen
