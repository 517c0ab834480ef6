SELECT coalesce(current_setting('idle_session_timeout', true), 'not there'),
       extract(epoch FROM coalesce(current_setting('idle_session_timeout', true), '0')::interval)::float8
