/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Upstream's fabtests include it, and find what they use of libhl-thunk by dlsym. */
#ifndef HLTHUNK_H
#define HLTHUNK_H
#endif /* HLTHUNK_H */
