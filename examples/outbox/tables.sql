CREATE TABLE stock (goods int PRIMARY KEY, quantity int NOT NULL CHECK (quantity >= 0));
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, goods int NOT NULL);
CREATE TABLE bills (order_id bigint PRIMARY KEY REFERENCES orders, billed timestamptz NOT NULL DEFAULT now());
INSERT INTO stock VALUES (1, 10);
