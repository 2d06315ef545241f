SELECT place, found.word, coalesce(found.id, 0), 0, found.body, krarup.flags_of(found.id)
FROM unnest($1::integer[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS wish (kind, name, client, wanted, place),
     LATERAL krarup.look(kind, name, client, wanted) AS found
