import type { LagStages } from './wire';

/** The parts of the lag behind a speaker, in the order in which they follow each other. */
export const lagStages = ['segmentation', 'wait', 'dispatch', 'node', 'return'] as const satisfies (keyof LagStages)[];
export type LagStage = (typeof lagStages)[number];
