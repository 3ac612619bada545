// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Seconds that XGBoost's library has spent in `send`, `recv` and `poll` of this process. Threads: any.
auto exchange_s() -> double;
