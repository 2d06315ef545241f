-- The row that names a transaction tells its answers: which messages they are, and to the wishes at which places. So a statement may be committed at once, and be answered
-- also where the connection broke.
ALTER TABLE krarup.outcome ADD COLUMN places bigint[];
ALTER TABLE krarup.outcome ADD COLUMN ids bigint[];
