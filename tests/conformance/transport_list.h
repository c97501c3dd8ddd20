#pragma once

// Every transport that has to behave alike: a fixture joins this list and all cases run over it.
#include "tests/conformance/shm_fixture.h"
#include "tests/conformance/sim_fixture.h"

#define PC_TRANSPORT_FIXTURES peercache::test::SimFixture, peercache::test::ShmFixture
