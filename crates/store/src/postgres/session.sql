-- Plans that never change: every search follows an index in its order, also in tables that are small now and will not be.
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET jit = off;
