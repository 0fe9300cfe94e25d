// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

/// What the stand-in libraries show to others; all else is hidden.
#define HLSIM_API __attribute__((visibility("default")))
