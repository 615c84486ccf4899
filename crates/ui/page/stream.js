// The stream of the fleet: server-sent events by fetch, because the token goes in a header. It goes on after a break
// where it was.
import { send, signedOut } from './api.js';
import { t } from './texts.js';

export function follow(data, onState) {
  const abort = new AbortController();
  run(data, onState, abort.signal).catch((error) => {
    if (error.name !== 'AbortError') console.error(error);
  });
  return () => abort.abort();
}

async function run(data, onState, signal) {
  let pause = 500;
  while (!signal.aborted) {
    const begun = Date.now();
    try {
      const after = data.place ? `?after=${encodeURIComponent(data.place)}` : '';
      const response = await send(`fleet${after}`, { signal });
      if (response.status === 401) return signedOut(t('expired'));
      if (response.status === 403) return onState('none');
      if (response.ok) {
        onState('live');
        await read(response.body.getReader(), data);
        pause = 500;
      } else {
        onState('broken');
      }
    } catch (error) {
      if (signal.aborted || error.name === 'AbortError') return;
      onState('broken');
    }
    // The service ends each stream after a minute: then the next one begins at once.
    if (Date.now() - begun > 20000) continue;
    await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
    pause = Math.min(pause * 2, 8000);
  }
}

async function read(reader, data) {
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    let start = 0;
    while ((end = text.indexOf('\n\n', start)) >= 0) {
      take(text.slice(start, end), data);
      start = end + 2;
    }
    text = text.slice(start);
  }
}

function take(block, data) {
  let name = '';
  let id = '';
  let body = '';
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('id: ')) id = line.slice(4);
    else if (line.startsWith('data: ')) body = line.slice(6);
  }
  if (name === 'reset') data.reset();
  else if (name === 'end') data.end(id, JSON.parse(body || '{}').names);
  else if (body) data.apply(JSON.parse(body));
}
