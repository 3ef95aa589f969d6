// Server-sent events read by fetch, which can send the token as a head; EventSource cannot. Tries again when it is cut off.

const AGAIN_MS = 2000

// The token stands behind # in the address, which browsers send to nobody.
export const token = decodeURIComponent(location.hash.slice(1))

function heads(more) {
  return {Authorization: `Bearer ${token}`, ...more}
}

// Calls told(event, data) for each event, and state("live" | "away" | "refused" | "over", text) when that changes.
export async function follow(told, state) {
  let over = false
  while (!over) {
    try {
      const answer = await fetch('/events', {headers: heads(), cache: 'no-store'})
      if (answer.status === 401) return state('refused', await answer.text())
      if (!answer.ok) throw new Error(await answer.text())
      state('live', '')
      over = await read(answer.body.getReader(), told)
    } catch (error) {
      state('away', error.message)
    }
    if (over) return state('over', '')
    state('away', '')
    await new Promise(done => setTimeout(done, AGAIN_MS))
  }
}

async function read(reader, told) {
  const decoder = new TextDecoder()
  let text = '', over = false
  for (;;) {
    const {done, value} = await reader.read()
    if (done) return over
    text += decoder.decode(value, {stream: true})
    const events = text.split('\n\n')
    text = events.pop()
    for (const event of events) {
      const lines = event.split('\n')
      const name = lines.find(one => one.startsWith('event: '))
      const data = lines.find(one => one.startsWith('data: '))
      if (!name || !data) continue
      const what = name.slice(7)
      over ||= what === 'last'
      told(what, JSON.parse(data.slice(6)))
    }
  }
}

// Asks for something; gives what came of it.
export async function ask(flow, action, value) {
  const body = JSON.stringify({flow, action, value})
  const answer = await fetch('/do', {method: 'POST', headers: heads({'Content-Type': 'application/json'}), body})
  const text = await answer.text()
  try {
    return JSON.parse(text)
  } catch {
    return {is_done: false, text: text.trim()}
  }
}
