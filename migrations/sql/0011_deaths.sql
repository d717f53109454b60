-- When pods were declared dead, for a day: where pods die without a task, it need
-- not be the cause when its own do. Blocks no session; instant.
create table {schema}.deaths (
	pod bigint primary key,
	at  timestamptz not null
);
