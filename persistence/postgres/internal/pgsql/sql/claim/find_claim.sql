-- find_claim: whether a claim has granted something.
-- Caller: claims around what cannot be read, which make parts of theirs on trial.
-- Index: claims_pkey.
select exists (select from {schema}.claims c where c.pod = @pod and c.claim = @claim)
