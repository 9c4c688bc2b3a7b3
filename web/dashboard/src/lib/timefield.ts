/** toField writes Unix milliseconds as the value of a field of type datetime-local. A text that is no time gives an empty field. */
export function toField(ms: string, utc: boolean): string {
  if (!/^\d{1,15}$/.test(ms)) return '';
  const at = Number(ms);
  return new Date(utc ? at : at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** fromField reads such a field; undefined: it is empty. */
export function fromField(value: string, utc: boolean): string | undefined {
  const at = value === '' ? Number.NaN : Date.parse(value + (utc ? 'Z' : ''));
  return Number.isNaN(at) ? undefined : String(at);
}
