/** What a person asks in the form that explains a dispatch. */
export interface Question {
  src: string;
  tgt: string;
  speech: boolean;
  tenant: string;
  session: string;
  region: string;
  preferredRegion: string;
  node: string;
  strict: boolean;
  services: string;
  models: string;
  features: string;
}

export const emptyQuestion: Question = {
  src: '',
  tgt: '',
  speech: false,
  tenant: '',
  session: '',
  region: '',
  preferredRegion: '',
  node: '',
  strict: false,
  services: '',
  models: '',
  features: '',
};

const list = (text: string): string[] =>
  text
    .split(/[,，\s]+/)
    // A version may have a comma: nmt@>=3,<4.
    .reduce<string[]>((all, part) => {
      if (/^[<>=]/.test(part) && all.length > 0) all[all.length - 1] += ',' + part;
      else if (part !== '') all.push(part);
      return all;
    }, []);

/** explainBody returns the body of POST /v1/dispatch/explain. What is empty is left out. */
export function explainBody(q: Question): Record<string, unknown> {
  const options: Record<string, unknown> = {
    require_tts: q.speech || undefined,
    preferred_node_id: q.node.trim() || undefined,
    strict: (q.strict && q.node.trim() !== '') || undefined,
    region: q.region.trim() || undefined,
    preferred_region: q.preferredRegion.trim() || undefined,
  };
  for (const [name, text] of [
    ['required_services', q.services],
    ['required_models', q.models],
    ['features', q.features],
  ] as const) {
    const items = list(text);
    if (items.length > 0) options[name] = items;
  }
  return {
    session_id: q.session.trim() || 'dashboard-explain',
    src_lang: q.src.trim(),
    tgt_lang: q.tgt.trim(),
    tenant_id: q.tenant.trim() || undefined,
    options,
  };
}
